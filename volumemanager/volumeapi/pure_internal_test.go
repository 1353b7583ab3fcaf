// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

func TestReferences(t *testing.T) {
	local := func(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }
	key := func(name string) *v1.EnvVarSource {
		return &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: local(name)}}
	}
	secretKey := func(name string) *v1.EnvVarSource {
		return &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: local(name)}}
	}
	volumes := []v1.VolumeSource{
		{EmptyDir: &v1.EmptyDirVolumeSource{}},
		{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: local("a")}},
		{Secret: &v1.SecretVolumeSource{SecretName: "b"}},
		{CSI: &v1.CSIVolumeSource{}},
		{CSI: &v1.CSIVolumeSource{NodePublishSecretRef: &v1.LocalObjectReference{Name: "c"}}},
		{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{}, {ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: local("d")}},
			{Secret: &v1.SecretProjection{LocalObjectReference: local("e")}}}}},
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: v1.PodSpec{
		ImagePullSecrets: []v1.LocalObjectReference{local("f"), local("")},
		InitContainers:   []v1.Container{{Env: []v1.EnvVar{{Value: "x"}, {ValueFrom: key("g")}, {ValueFrom: secretKey("h")}}}},
		Containers: []v1.Container{{EnvFrom: []v1.EnvFromSource{{},
			{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: local("i")}},
			{SecretRef: &v1.SecretEnvSource{LocalObjectReference: local("j")}}}}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
			Env: []v1.EnvVar{{ValueFrom: key("a")}, {ValueFrom: key("k")}, {ValueFrom: &v1.EnvVarSource{}}}}}},
	}}
	for _, s := range volumes {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{VolumeSource: s})
	}
	var got []string
	for ref := range references(pod) {
		assert.Equal(t, "ns", ref.Namespace)
		got = append(got, string(ref.Kind[:1])+ref.Name)
	}
	slices.Sort(got)
	assert.Equal(t, []string{"Ca", "Cd", "Cg", "Ci", "Ck", "Sb", "Sc", "Se", "Sf", "Sh", "Sj"}, got)
	for ref := range references(pod) {
		ref.Name += "x"
		for _, v := range pod.Spec.Volumes {
			assert.False(t, ref.UsedBy(pod, v))
		}
	}
}

func TestBackoff(t *testing.T) {
	for n, want := range map[int]time.Duration{0: 50, 1: 50, 2: 100, 3: 200, 10: 25600, 11: 30000, 1000: 30000} {
		want *= time.Millisecond
		assert.Equal(t, want, retry.Backoff(n, firstPause, longestPause, 0), n)
		assert.Equal(t, want+want/2, retry.Backoff(n, firstPause, longestPause, 0.5), n)
	}
}

func TestUplink(t *testing.T) {
	var u uplink
	at := func(seconds float64) time.Time {
		return time.Unix(0, 0).Add(time.Duration(seconds * float64(time.Second)))
	}
	allowed := func(seconds float64) int {
		n, again := u.allowed(at(seconds), 8)
		if n == 0 {
			require.True(t, again.After(at(seconds)), "it says when to come back")
		}
		return n
	}
	assert.Equal(t, 8, allowed(0))
	u.fails(at(0), at(1), 0, 0)
	assert.Equal(t, 0, allowed(1.1))
	assert.Equal(t, 1, allowed(1.2))
	for range 7 {
		u.fails(at(0), at(1.1), 0, 0) // a concurrent request
	}
	assert.Equal(t, 1, allowed(1.2))
	u.fails(at(1.2), at(1.3), 0, 0)
	assert.Equal(t, 0, allowed(1.69))
	assert.Equal(t, 1, allowed(1.7))
	u.fails(at(1.7), at(1.8), 3*time.Second, 0)
	assert.Equal(t, 0, allowed(4.7), "as the server wishes")
	u.works()
	assert.Equal(t, 8, allowed(4.7))
}

// The queue equals a list that is sorted for each answer.
func TestQueueIsInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	type waits struct {
		due   time.Time
		order int
	}
	for range 200 {
		var q queue
		naive := map[*entry]waits{}
		entries := make([]*entry, 20)
		for i := range entries {
			entries[i] = newEntry(objects.Ref{})
		}
		for step := range 100 {
			e := entries[r.IntN(len(entries))]
			switch r.IntN(4) {
			case 0:
				q.remove(e)
				delete(naive, e)
			case 1:
				if len(naive) == 0 {
					continue
				}
				want := slices.SortedFunc(maps.Keys(naive), func(a, b *entry) int {
					return cmp.Or(naive[a].due.Compare(naive[b].due), cmp.Compare(naive[a].order, naive[b].order))
				})[0]
				require.Same(t, want, q.take())
				delete(naive, want)
			default:
				due := time.Unix(r.Int64N(10), 0)
				q.put(e, due)
				naive[e] = waits{due, step}
			}
			_, some := q.next()
			require.Equal(t, len(naive) > 0, some)
			require.Len(t, q.entries, len(naive))
		}
	}
}

func TestReportTellsEachProblemOnce(t *testing.T) {
	a, b := objects.Ref{Name: "a"}, objects.Ref{Name: "b"}
	away := &Error{Ref: a, Verb: verbGet, Reason: clientkit.Unreachable, Err: clientkit.ErrAtOnce}
	alsoAway := &Error{Ref: b, Verb: verbGet, Reason: clientkit.Unreachable, Err: clientkit.ErrAtOnce}
	forbidden := &Error{Ref: b, Verb: verbGet, Reason: clientkit.Forbidden, Err: clientkit.ErrAtOnce}
	r := report{told: map[kind]bool{}}
	r.failed(away, 1)
	r.failed(alsoAway, 1)
	assert.Equal(t, []*Error{away}, r.take())
	r.failed(forbidden, tolerated)
	assert.Empty(t, r.take())
	r.failed(forbidden, tolerated+1)
	r.failed(forbidden, tolerated+2)
	assert.Equal(t, []*Error{forbidden}, r.take())
	assert.True(t, r.knows(b))
	r.answers()
	r.over(a)
	assert.Empty(t, r.take())
	r.over(b)
	r.over(b)
	assert.Equal(t, []*Error{nil}, r.take())
	assert.False(t, r.knows(b))
}

func TestAfter(t *testing.T) {
	at := func(version string) content {
		return content{configMap: &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}}
	}
	assert.Positive(t, at("10").after(at("9")))
	assert.Negative(t, at("9").after(at("10")))
	assert.Zero(t, at("9").after(at("9")))
	assert.Positive(t, at("9").after(at("opaque")))
	assert.Positive(t, at("9").after(content{}))
}
