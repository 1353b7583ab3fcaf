// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCompare tests each difference alone, and together with a lesser difference, in both
// directions.
func TestCompare(t *testing.T) {
	grace, longer := int64(1), int64(2)
	// Two keys, so that a rename keeps the number.
	base := func() *v1.Pod {
		return &v1.Pod{
			TypeMeta: metav1.TypeMeta{Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{
				Name: "a", UID: "1", ResourceVersion: "1",
				Labels:      map[string]string{"k": "v", "empty": ""},
				Annotations: map[string]string{"k": "v", "empty": "", AnnotationSource: "file"},
			},
		}
	}
	for name, tc := range map[string]struct {
		edit func(p *v1.Pod)
		want comparison
	}{
		"nothing":                        {func(*v1.Pod) {}, comparison{}},
		"a label's value":                {func(p *v1.Pod) { p.Labels["k"] = "w" }, comparison{meta: different}},
		"an empty label goes":            {func(p *v1.Pod) { delete(p.Labels, "empty") }, comparison{meta: different}},
		"an empty label is renamed":      {func(p *v1.Pod) { delete(p.Labels, "empty"); p.Labels["other"] = "" }, comparison{meta: different}},
		"an annotation's value":          {func(p *v1.Pod) { p.Annotations["k"] = "w" }, comparison{meta: different}},
		"an empty annotation goes":       {func(p *v1.Pod) { delete(p.Annotations, "empty") }, comparison{meta: different}},
		"an empty annotation is renamed": {func(p *v1.Pod) { delete(p.Annotations, "empty"); p.Annotations["other"] = "" }, comparison{meta: different}},
		"a local annotation":             {func(p *v1.Pod) { p.Annotations[AnnotationSource] = "api" }, comparison{}},
		"deletion":                       {func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, comparison{meta: different}},
		"grace":                          {func(p *v1.Pod) { p.DeletionGracePeriodSeconds = &grace }, comparison{meta: different}},
		"resource version":               {func(p *v1.Pod) { p.ResourceVersion = "2" }, comparison{meta: trifling}},
		"kind":                           {func(p *v1.Pod) { p.Kind = "" }, comparison{meta: trifling}},
		"kind and a label":               {func(p *v1.Pod) { p.Kind = ""; p.Labels["k"] = "w" }, comparison{meta: different}},
		"kind and resource version":      {func(p *v1.Pod) { p.Kind = ""; p.ResourceVersion = "2" }, comparison{meta: trifling}},
		"spec":                           {func(p *v1.Pod) { p.Spec.NodeName = "n" }, comparison{spec: true}},
		"spec and kind":                  {func(p *v1.Pod) { p.Spec.NodeName = "n"; p.Kind = "" }, comparison{meta: trifling, spec: true}},
		"status":                         {func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }, comparison{status: true}},
	} {
		t.Run(name, func(t *testing.T) {
			stored, in := base(), base()
			tc.edit(in)
			assert.Equal(t, tc.want, compare(stored, in))
			assert.Equal(t, tc.want, compare(in, stored))
		})
	}
	t.Run("a mirror", func(t *testing.T) {
		stored, in := base(), base()
		in.Annotations[AnnotationMirror] = ""
		assert.Equal(t, comparison{meta: trifling}, compare(stored, in))
		assert.Equal(t, comparison{}, compare(in, stored), "it sticks")
		assert.Equal(t, comparison{}, compare(in, in.DeepCopy()))
	})
	t.Run("another grace period", func(t *testing.T) {
		stored, in := base(), base()
		stored.DeletionGracePeriodSeconds, in.DeletionGracePeriodSeconds = &grace, new(grace)
		assert.Equal(t, comparison{}, compare(stored, in))
		in.DeletionGracePeriodSeconds = &longer
		assert.Equal(t, comparison{meta: different}, compare(stored, in))
	})
}
