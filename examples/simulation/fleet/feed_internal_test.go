// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/keelson-dev/keelson/podconfig"
)

// lister lists fixed pods.
type lister struct {
	corev1.PodInterface
	pods []v1.Pod
}

func (l lister) List(_ context.Context, o metav1.ListOptions) (*v1.PodList, error) {
	return &v1.PodList{Items: slices.DeleteFunc(slices.Clone(l.pods), func(p v1.Pod) bool {
		return "spec.nodeName="+p.Spec.NodeName != o.FieldSelector
	})}, nil
}

func podOn(node, name string) *v1.Pod {
	pod := &v1.Pod{}
	pod.Name, pod.UID, pod.Spec.NodeName = name, types.UID(name), node
	return pod
}

// told has the changes that an agent got, as text.
type told struct{ all []string }

func (r *told) Submit(_ context.Context, c podconfig.Change) error {
	text := strings.ToLower(c.Kind().String())
	if c.Kind() != podconfig.ChangeRemove && !c.IsGiven() {
		text += " copied"
	}
	for _, p := range c.Pods() {
		text += " " + p.Name
	}
	for _, uid := range c.UIDs() {
		text += " " + string(uid)
	}
	r.all = append(r.all, text)
	return nil
}

func TestEachNodeGetsItsOwnChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		f := newFeeds(lister{pods: []v1.Pod{*podOn("a", "one"), *podOn("b", "two")}}, []*v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}})
		run := func(node string) *told {
			out := &told{}
			source := f.connect(node)
			go func() { assert.NoError(t, source.Run(ctx, out)) }()
			return out
		}
		a := run("a")
		for _, c := range []podconfig.Change{
			podconfig.Snapshot(podOn("a", "one"), podOn("b", "two"), podOn("stranger", "three")),
			podconfig.Upsert(podOn("b", "four")), podconfig.Upsert(podOn("a", "five")), podconfig.Upsert(podOn("stranger", "six")),
			podconfig.Remove("two"), podconfig.Remove("one"), podconfig.Remove("unknown"), podconfig.Remove("six"),
		} {
			require.NoError(t, f.Submit(ctx, c))
		}
		b := run("b")
		synctest.Wait()
		assert.Equal(t, []string{"snapshot one", "upsert five", "remove one"}, a.all)
		assert.Equal(t, []string{"snapshot two", "upsert four", "remove two"}, b.all)
		again := run("a") // the next agent of the node
		synctest.Wait()
		require.NoError(t, f.Submit(ctx, podconfig.Remove("one")))
		synctest.Wait()
		assert.Equal(t, []string{"snapshot one", "remove one"}, again.all)
		assert.Len(t, a.all, 3)
		stop()
	})
}

func TestPodsAreSlim(t *testing.T) {
	pod := podOn("a", "one")
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	pod.Annotations = map[string]string{v1.LastAppliedConfigAnnotation: "{}", "kept": "yes"}
	pod.Spec.Volumes = []v1.Volume{{Name: "v"}}
	pod.Spec.InitContainers = []v1.Container{{Name: "i", Command: []string{"c"}}}
	pod.Spec.Containers = []v1.Container{{Name: "c", Image: "x", Args: []string{"a"}, Env: []v1.EnvVar{{Name: "E"}}, VolumeMounts: []v1.VolumeMount{{Name: "v"}}}}
	want := podOn("a", "one")
	want.Annotations = map[string]string{"kept": "yes"}
	want.Spec.InitContainers = []v1.Container{{Name: "i"}}
	want.Spec.Containers = []v1.Container{{Name: "c", Image: "x"}}
	assert.Equal(t, want, slim(pod))
}

func TestScripts(t *testing.T) {
	for _, c := range []struct {
		annotations string // key=value, without the prefix
		policy      v1.RestartPolicy
		restarts    int32
		want        string
	}{
		{"", v1.RestartPolicyAlways, 0, "exits after 0s with 0, ready after 0s, stops after 0s"},
		{"", v1.RestartPolicyNever, 0, "exits after 100ms with 0, ready after 0s, stops after 0s"},
		{"runs=forever", v1.RestartPolicyNever, 0, "exits after 0s with 0, ready after 0s, stops after 0s"},
		{"runs=0s", v1.RestartPolicyNever, 0, "exits after 1ns with 0, ready after 0s, stops after 0s"},
		{"runs=3s exit-code=4", v1.RestartPolicyAlways, 0, "exits after 3s with 4, ready after 0s, stops after 0s"},
		{"runs=3s main.runs=5s other.exit-code=1", v1.RestartPolicyAlways, 0, "exits after 5s with 0, ready after 0s, stops after 0s"},
		{"ready-after=2s stops-after=1s", v1.RestartPolicyAlways, 0, "exits after 0s with 0, ready after 2s, stops after 1s"},
		{"crashes=2 runs=9s", v1.RestartPolicyAlways, 1, "exits after 1ns with 1, ready after 0s, stops after 0s"},
		{"crashes=2 runs=9s", v1.RestartPolicyAlways, 2, "exits after 9s with 0, ready after 0s, stops after 0s"},
		{"runs=-1s", v1.RestartPolicyAlways, 0, `annotation simulation.keelson.dev/runs: "-1s": want a duration such as 30s, or forever`},
		{"exit-code=256", v1.RestartPolicyAlways, 0, `annotation simulation.keelson.dev/exit-code: "256": want a number from 0 to 255`},
		{"main.crashes=x", v1.RestartPolicyAlways, 0, `annotation simulation.keelson.dev/main.crashes: "x": want a number from 0 to 1048576`},
	} {
		pod := podOn("a", "one")
		pod.Spec.RestartPolicy = c.policy
		pod.Annotations = map[string]string{}
		for _, one := range strings.Fields(c.annotations) {
			key, value, _ := strings.Cut(one, "=")
			pod.Annotations[prefix+key] = value
		}
		probe := &v1.Probe{}
		pod.Spec.Containers = []v1.Container{{Name: "main", ReadinessProbe: probe}}
		s, err := scriptOf(pod, &pod.Spec.Containers[0], 0, c.restarts)
		got := fmt.Sprintf("exits after %s with %d, ready after %s, stops after %s", s.ExitAfter, s.ExitCode, s.ReadyAfter, s.TermAfter)
		if err != nil {
			got = err.Error()
			require.Len(t, admit(pod), 1)
		}
		assert.Equal(t, c.want, got, c.annotations)
	}
}
