// SPDX-License-Identifier: Apache-2.0

package mirror_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/mirror"
)

func TestDecide(t *testing.T) {
	deleting := func(grace int64, finalizers ...string) *v1.Pod {
		m := mirrorPod("a", "m", "h1")
		m.DeletionTimestamp, m.DeletionGracePeriodSeconds, m.Finalizers = &metav1.Time{}, &grace, finalizers
		return m
	}
	tests := []struct {
		name   string
		mirror *v1.Pod
		want   mirror.Step
	}{
		{"none", nil, mirror.StepCreate},
		{"right", mirrorPod("a", "m", "h1"), mirror.StepNone},
		{"of other content", mirrorPod("a", "m", "h2"), mirror.StepReplace},
		{"no mirror at all", plain("a", "m"), mirror.StepReplace},
		{"of another name", mirrorPod("b", "m", "h1"), mirror.StepReplace},
		{"being deleted by a user", deleting(30), mirror.StepReplace},
		{"being deleted by a user, with finalizers", deleting(30, "f"), mirror.StepReplace},
		{"deleted by the node, held", deleting(0, "f"), mirror.StepWait},
		{"deleted by the node, not held", deleting(0), mirror.StepReplace},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, mirror.Decide(static("a", "s", "h1"), tc.mirror))
		})
	}
}

func TestReconcile(t *testing.T) {
	tests := []struct {
		name  string
		setUp func(*fixture)
		want  mirror.Outcome
		calls []string
		shown string
	}{
		{"creates", func(*fixture) {}, mirror.Created, []string{"create " + key}, "h1"},
		{"keeps", func(f *fixture) { f.created() }, mirror.Kept, nil, "h1"},
		{"replaces when edited", func(f *fixture) {
			f.created()
			f.static = static("web-n", "s2", "h2")
		}, mirror.Replaced, []string{"delete " + key, "create " + key}, "h2"},
		{"replaces when outlived", func(f *fixture) {
			f.created()
			f.api.pods[key].Status.Phase = v1.PodFailed
		}, mirror.Replaced, []string{"delete " + key, "create " + key}, "h1"},
		{"keeps the mirror pod of a pod that has ended", func(f *fixture) {
			f.created()
			f.api.pods[key].Status.Phase, f.static.Status.Phase = v1.PodFailed, v1.PodFailed
		}, mirror.Kept, nil, "h1"},
		{"confirms a user's deletion", func(f *fixture) {
			f.created()
			require.NoError(f, f.api.in("ns").Delete(f.Context(), "web-n", metav1.DeleteOptions{}))
			f.api.taken()
		}, mirror.Replaced, []string{"delete " + key, "create " + key}, "h1"},
		{"waits for finalizers", func(f *fixture) {
			f.created()
			f.api.pods[key].Finalizers = []string{"f"}
			f.static = static("web-n", "s2", "h2")
		}, mirror.Waiting, []string{"delete " + key, "create " + key, "get " + key}, "h1"},
		{"asks nobody while finalizers hold", func(f *fixture) {
			f.created()
			f.api.pods[key].Finalizers = []string{"f"}
			f.static = static("web-n", "s2", "h2")
			_, err := f.reconcile()
			require.NoError(f, err)
			f.api.taken()
		}, mirror.Waiting, nil, "h1"},
		{"creates nothing on a node that is being deleted", func(f *fixture) {
			f.node.DeletionTimestamp = &metav1.Time{}
		}, mirror.Waiting, nil, ""},
		{"deletes on a node that is being deleted", func(f *fixture) {
			f.created()
			f.node.DeletionTimestamp = &metav1.Time{}
			f.static = static("web-n", "s2", "h2")
		}, mirror.Waiting, []string{"delete " + key}, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			tc.setUp(f)
			before := f.static.DeepCopy()
			outcome, err := f.reconcile()
			require.NoError(t, err)
			require.Equal(t, tc.want.String(), outcome.String())
			require.Equal(t, tc.calls, f.api.taken())
			require.Equal(t, tc.shown, f.shown())
			require.Equal(t, before, f.static, "the caller's pod is not edited")
		})
	}
}

// TestReconcileOutOfDate passes mirror pods that differ from the API server's.
func TestReconcileOutOfDate(t *testing.T) {
	tests := []struct {
		name  string
		known func(f *fixture) *v1.Pod
		want  mirror.Outcome
		shown string
	}{
		{"nothing known, and it is there", func(f *fixture) *v1.Pod { f.created(); return nil }, mirror.Kept, "h1"},
		{"nothing known, and an old one is there", func(f *fixture) *v1.Pod {
			f.created()
			f.static = static("web-n", "s2", "h2")
			return nil
		}, mirror.Replaced, "h2"},
		{"nothing known, and an outlived one is there", func(f *fixture) *v1.Pod {
			f.created()
			f.api.pods[key].Status.Phase = v1.PodFailed
			return nil
		}, mirror.Replaced, "h1"},
		{"an old one known that is gone", func(*fixture) *v1.Pod { return mirrorPod("web-n", "m", "h0") }, mirror.Replaced, "h1"},
		{"an old one known, and another one is right", func(f *fixture) *v1.Pod {
			f.created()
			return mirrorPod("web-n", "m", "h0")
		}, mirror.Kept, "h1"},
		{"an old one known, and another old one is there", func(f *fixture) *v1.Pod {
			f.created()
			f.static = static("web-n", "s2", "h2")
			return mirrorPod("web-n", "m", "h0")
		}, mirror.Replaced, "h2"},
		{"gone between two looks", func(f *fixture) *v1.Pod {
			f.created()
			f.api.before = func(call string) {
				if call == "get "+key {
					delete(f.api.pods, key)
				}
			}
			return nil
		}, mirror.Created, "h1"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			known := tc.known(f)
			right := f.current()
			outcome, err := f.client.Reconcile(t.Context(), f.static, known)
			require.NoError(t, err)
			require.Equal(t, tc.want.String(), outcome.String())
			require.Equal(t, tc.shown, f.shown())
			if outcome == mirror.Kept {
				require.Equal(t, right, f.current(), "not even once deleted")
			}
		})
	}
}

func TestReconcileFails(t *testing.T) {
	forbidden := apierrors.NewForbidden(podResource, "web-n", errors.New("no"))
	on := func(call string) func(f *fixture) {
		return func(f *fixture) {
			f.api.fault = func(c string) error {
				if c == call+" "+key {
					return forbidden
				}
				return nil
			}
		}
	}
	edited := func(f *fixture) { f.created(); f.static = static("web-n", "s2", "h2") }
	tests := []struct {
		name  string
		setUp []func(*fixture)
		known func(f *fixture) *v1.Pod
		want  error
	}{
		{"no node", []func(*fixture){func(f *fixture) { f.node = nil }}, (*fixture).current, errNoNode},
		{"node without UID", []func(*fixture){func(f *fixture) { f.node.UID = "" }}, (*fixture).current, mirror.ErrNode},
		{"create", []func(*fixture){on("create")}, (*fixture).current, forbidden},
		{"delete", []func(*fixture){edited, on("delete")}, (*fixture).current, forbidden},
		{"get", []func(*fixture){edited, on("get")}, func(*fixture) *v1.Pod { return nil }, forbidden},
		{"delete of what was found", []func(*fixture){edited, on("delete")}, func(*fixture) *v1.Pod { return nil }, forbidden},
		{"a user's pod has the name", []func(*fixture){func(f *fixture) { f.api.pods[key] = plain("web-n", "user") }},
			func(*fixture) *v1.Pod { return nil }, mirror.ErrNameTaken},
		{"another node's mirror has the name", []func(*fixture){func(f *fixture) {
			f.api.pods[key] = mirrorPod("web-n", "m", "h1")
			f.api.pods[key].Spec.NodeName = "other"
		}}, func(*fixture) *v1.Pod { return nil }, mirror.ErrNameTaken},
		{"somebody else creates and deletes", []func(*fixture){edited, func(f *fixture) {
			old := f.current()
			f.api.before = func(call string) {
				if call == "create "+key {
					f.api.pods[key] = old.DeepCopy()
				}
			}
		}}, (*fixture).current, mirror.ErrUnsettled},
		{"not static", []func(*fixture){func(f *fixture) { f.static = plain("web-n", "p") }}, (*fixture).current, mirror.ErrNotStatic},
		{"a mirror", []func(*fixture){func(f *fixture) { f.static.Annotations[podconfig.AnnotationMirror] = "h" }},
			func(*fixture) *v1.Pod { return nil }, mirror.ErrNotStatic},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			for _, do := range tc.setUp {
				do(f)
			}
			outcome, err := f.client.Reconcile(t.Context(), f.static, tc.known(f))
			require.ErrorIs(t, err, tc.want)
			require.ErrorContains(t, err, "web-n")
			require.Zero(t, outcome)
			for k, p := range f.api.pods {
				require.Equal(t, key, k)
				require.NotEmpty(t, p.UID)
			}
		})
	}
}

func TestNewMirrorPod(t *testing.T) {
	s := static("web-n", "s1", "h1")
	s.Labels, s.ResourceVersion, s.Finalizers = map[string]string{"a": "b"}, "7", []string{"f"}
	s.Annotations["note"] = "x"
	before := s.DeepCopy()
	m, err := mirror.New(s, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}})
	require.NoError(t, err)
	require.Equal(t, before, s)
	require.Equal(t, metav1.ObjectMeta{
		Name: "web-n", Namespace: "ns", Labels: map[string]string{"a": "b"},
		Annotations: map[string]string{"note": "x", podconfig.AnnotationSource: "file",
			podconfig.AnnotationHash: "h1", podconfig.AnnotationMirror: "h1"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u", Controller: new(true)}},
	}, m.ObjectMeta)
	require.Equal(t, s.Spec, m.Spec)
	require.True(t, mirror.IsMirrorOf(m, s))
	_, err = mirror.New(s, nil)
	require.ErrorIs(t, err, mirror.ErrNode)
}

// Pods from a bus have no hash annotation; edits must be noticed nevertheless.
func TestHashOfAPodWithoutAnnotation(t *testing.T) {
	bare := func(edit func(*v1.Pod)) *v1.Pod {
		p := static("a", "s", "")
		p.Annotations = map[string]string{podconfig.AnnotationSource: "bus"}
		edit(p)
		return p
	}
	hash := mirror.Hash(bare(func(*v1.Pod) {}))
	require.NotEmpty(t, hash)
	for _, same := range []func(*v1.Pod){
		func(p *v1.Pod) { p.ResourceVersion, p.Status.Phase = "8", v1.PodRunning },
		func(p *v1.Pod) { p.Annotations[podconfig.AnnotationFirstSeen] = "now" },
		func(p *v1.Pod) { p.Annotations = nil },
	} {
		require.Equal(t, hash, mirror.Hash(bare(same)))
	}
	for _, other := range []func(*v1.Pod){
		func(p *v1.Pod) { p.Spec.Containers[0].Image = "x:2" },
		func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} },
		func(p *v1.Pod) { p.Annotations["a"] = "b" },
	} {
		require.NotEqual(t, hash, mirror.Hash(bare(other)))
	}
}

func TestDelete(t *testing.T) {
	f := newFixture(t)
	m := f.created()
	other := types.UID("other")
	tests := []struct {
		name, fullName string
		uid            *types.UID
		want           bool
	}{
		{"of another UID", "web-n_ns", &other, false},
		{"of its UID", "web-n_ns", &m.UID, true},
		{"gone", "web-n_ns", &m.UID, false},
		{"gone, any UID", "web-n_ns", nil, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			done, err := f.client.Delete(t.Context(), tc.fullName, tc.uid)
			require.NoError(t, err)
			require.Equal(t, tc.want, done)
		})
	}
	f.created()
	done, err := f.client.Delete(t.Context(), "web-n_ns", nil)
	require.NoError(t, err)
	require.True(t, done)
	_, err = f.client.Delete(t.Context(), "web-n", nil)
	require.ErrorIs(t, err, podconfig.ErrFullName)
}

func TestDeleteOrphans(t *testing.T) {
	f := newFixture(t)
	x := mirror.NewIndex()
	names := []string{"busy", "failing", "held", "plain", "with-pod"}
	for _, name := range names {
		m := mirrorPod(name, types.UID(name), "h")
		f.api.pods["ns/"+name] = m.DeepCopy()
		if name == "held" {
			m.DeletionTimestamp, m.DeletionGracePeriodSeconds, m.Finalizers = &metav1.Time{}, new(int64), []string{"f"}
		}
		x.Put(m)
	}
	x.Put(mirrorPod("replaced", "old", "h"))
	f.api.pods["ns/replaced"] = mirrorPod("replaced", "new", "h")
	x.Put(static("with-pod", "s", "h"))
	failure := errors.New("no")
	f.api.fault = func(call string) error {
		if call == "delete ns/failing" {
			return failure
		}
		return nil
	}
	err := f.client.DeleteOrphans(t.Context(), x.Orphans(), func(m *v1.Pod) bool { return m.Name == "busy" })
	require.ErrorIs(t, err, failure)
	require.Equal(t, []string{"delete ns/failing", "delete ns/plain", "delete ns/replaced"}, f.api.taken())
	require.NotContains(t, f.api.pods, "ns/plain")
	require.Contains(t, f.api.pods, "ns/replaced")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, f.client.DeleteOrphans(ctx, x.Orphans(), nil), context.Canceled)
	require.Empty(t, f.api.taken())
}

func TestClientWithoutAPIServerDoesNothing(t *testing.T) {
	c, err := mirror.NewClient(mirror.Config{})
	require.NoError(t, err)
	outcome, err := c.Reconcile(t.Context(), static("a", "s", "h"), nil)
	require.NoError(t, err)
	require.Equal(t, mirror.Kept, outcome)
	done, err := c.Delete(t.Context(), "a_ns", nil)
	require.NoError(t, err)
	require.False(t, done)
	x := mirror.NewIndex()
	x.Put(mirrorPod("a", "m", "h"))
	require.NoError(t, c.DeleteOrphans(t.Context(), x.Orphans(), nil))

	_, err = mirror.NewClient(mirror.Config{Pods: (&api{}).in})
	require.ErrorIs(t, err, mirror.ErrConfig)
	require.ErrorContains(t, err, "Node")
}

// A mirror pod whose deletion is refused with a conflict is deleted by a later call. The server has
// no other pod of its name.
func TestConflictIsNoDeletion(t *testing.T) {
	f := newFixture(t)
	old := f.created()
	orphans := func(yield func(*v1.Pod) bool) { yield(old) }
	f.api.fault = func(string) error { return apierrors.NewConflict(podResource, "web-n", errors.New("not now")) }
	require.NoError(t, f.client.DeleteOrphans(t.Context(), orphans, nil))
	require.Contains(t, f.api.pods, key)
	f.api.fault = nil
	require.NoError(t, f.client.DeleteOrphans(t.Context(), orphans, nil))
	require.NotContains(t, f.api.pods, key)
}

// TestDeletedPodIsNotDeletedAgain: an outdated view still has a deleted mirror pod. No request and no budget is spent on it.
func TestDeletedPodIsNotDeletedAgain(t *testing.T) {
	f := newFixture(t)
	old := f.created()
	for range 10 {
		orphans := func(yield func(*v1.Pod) bool) { yield(old) }
		require.NoError(t, f.client.DeleteOrphans(t.Context(), orphans, nil))
	}
	require.Equal(t, []string{"delete " + key}, f.api.taken())
	outcome, err := f.client.Reconcile(t.Context(), f.static, old)
	require.NoError(t, err)
	require.Equal(t, mirror.Created.String(), outcome.String())
	require.Equal(t, []string{"create " + key}, f.api.taken())
}
