// SPDX-License-Identifier: Apache-2.0

package podwatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/apiservertest"
	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/podconfig/mirror"
)

// Pods bound to the node arrive with their changes; pods of other nodes do not.
func TestE2EPodsArrive(t *testing.T) {
	n := newE2ENode(t, "arrive", nil)
	require.Equal(t, map[podconfig.Op]int{podconfig.OpAdd: 0}, n.ops(), "an empty node is ready")
	_, err := n.server.CreateNode(t.Context(), "arrive-elsewhere")
	require.NoError(t, err)
	_, err = n.server.CreatePods(t.Context(), apiservertest.Pod("arrive", "foreign", "arrive-elsewhere"))
	require.NoError(t, err)
	n.create("a", "b", "c")
	n.awaitHeld([]string{"a", "b", "c"})
	require.Equal(t, map[podconfig.Op]int{podconfig.OpAdd: 3}, n.ops())

	patch := []byte(`{"metadata":{"labels":{"edited":"yes"}}}`)
	_, err = n.admin.Pods("arrive").Patch(t.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	patch = []byte(`{"status":{"phase":"Running"}}`)
	_, err = n.admin.Pods("arrive").Patch(t.Context(), "b", types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	n.remove("c")
	n.awaitHeld([]string{"a", "b"})
	require.Equal(t, map[podconfig.Op]int{podconfig.OpUpdate: 1, podconfig.OpReconcile: 1,
		podconfig.OpDelete: 1, podconfig.OpRemove: 1}, n.ops(), "the server marks a pod before it deletes it")
	require.Empty(t, n.problems())
}

// A pod bound later arrives at its binding: the server sends an ADDED event.
func TestE2EBindingIsAnArrival(t *testing.T) {
	n := newE2ENode(t, "bind", nil)
	p := apiservertest.Pod("bind", "late", "")
	_, err := n.admin.Pods("bind").Create(t.Context(), p, metav1.CreateOptions{})
	require.NoError(t, err)
	n.create("first")
	n.awaitHeld([]string{"first"})
	err = n.admin.Pods("bind").Bind(t.Context(), &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "late"},
		Target: v1.ObjectReference{Kind: "Node", Name: "bind"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	n.awaitHeld([]string{"first", "late"})
	require.Equal(t, 2, n.ops()[podconfig.OpAdd])
}

// The server is killed and restarted: known pods stay, and new pods arrive.
func TestE2EServerIsKilledAndRestarted(t *testing.T) {
	n := newE2ENode(t, "killed", nil)
	n.create("a", "b")
	n.awaitHeld([]string{"a", "b"})
	n.ops()
	require.NoError(t, n.server.Kill())
	n.await("a problem", func() bool { return len(n.problems()) > 0 })
	require.Equal(t, []string{"a", "b"}, n.held())
	require.NoError(t, n.server.Restart(t.Context()))
	n.remove("a")
	n.create("c")
	n.awaitHeld([]string{"b", "c"})
	n.await("well again", n.isWell)
	require.Equal(t, map[podconfig.Op]int{podconfig.OpAdd: 1, podconfig.OpDelete: 1, podconfig.OpRemove: 1}, n.ops(),
		"each change once, and no word of b")
}

// A thousand pods are created, and most are deleted, while the node is disconnected. Then the
// history is compacted, so that the server answers 410 to the watch. The merged state is correct
// afterwards, with each change reported once.
func TestE2EThousandPodsMissedAndCompacted(t *testing.T) {
	n := newE2ENode(t, "missed", nil)
	old, fresh := names(200, "old-%03d"), names(1000, "new-%04d")
	n.create(old...)
	n.awaitHeld(old)
	n.ops()

	n.uplink.cut()
	n.create(fresh...)
	n.remove(fresh[100:]...)
	n.remove(old[:100]...)
	again := fresh[0] // another pod with the same name
	n.remove(again)
	n.create(again)
	require.NoError(t, n.server.Compact(t.Context()))
	require.NoError(t, n.server.Restart(t.Context())) // its watch cache then starts empty
	require.Len(t, n.held(), 200)
	require.Empty(t, n.ops())

	n.uplink.mend()
	n.awaitHeld(append(append([]string{}, old[100:]...), fresh[:100]...))
	n.await("well again", n.isWell)
	require.Equal(t, map[podconfig.Op]int{podconfig.OpAdd: 100, podconfig.OpRemove: 100}, n.ops())
	require.Contains(t, n.problems(), clientkit.Expired, "that was a 410")
	n.create("after")
	n.await("what comes after", func() bool { return n.ops()[podconfig.OpAdd] == 1 })
}

// Mirror pods are created, replaced after an edit of the pod or a deletion by a user, and removed
// with the pod. The node uses its own rights, so that a request rejected by NodeRestriction fails
// the test.
func TestE2EMirrorPods(t *testing.T) {
	index := mirror.NewIndex()
	m := &mirroring{T: t, index: index}
	n := newE2ENode(t, "mirror", m.take)
	m.node = n
	client, err := mirror.NewClient(mirror.Config{
		Pods: func(namespace string) mirror.Writer { return n.client.Pods(namespace) },
		Node: func(context.Context) (*v1.Node, error) { return n.object, nil },
	})
	require.NoError(t, err)
	m.client = client

	first := m.decode("x:1")
	m.sync(first)
	n.awaitHeld([]string{"web-mirror"})
	one := m.inAPI()
	require.True(t, mirror.IsMirrorOf(one, first))
	n.await("its mirror", func() bool { return index.Translate(one.UID) == first.UID })
	require.Equal(t, mirror.Kept, m.sync(first))

	second := m.decode("x:2")
	index.Remove(first.UID)
	require.Equal(t, mirror.Replaced, m.sync(second))
	two := m.inAPI()
	require.NotEqual(t, one.UID, two.UID)
	require.Equal(t, "x:2", two.Spec.Containers[0].Image)
	n.await("the new mirror", func() bool { return index.Translate(two.UID) == second.UID })

	// A user deletes the mirror pod: the API server waits for the node, which confirms and creates
	// another.
	require.NoError(t, n.admin.Pods("mirror").Delete(t.Context(), "web-mirror", metav1.DeleteOptions{GracePeriodSeconds: new(int64(30))}))
	n.await("another mirror", func() bool { p := m.inAPI(); return p != nil && p.UID != two.UID && p.DeletionTimestamp == nil })
	three := m.inAPI()
	n.await("the third mirror", func() bool { return index.Translate(three.UID) == second.UID })

	// Finalizers hold the mirror pod: no request is sent until they are removed.
	m.finalize(`["example.com/hold"]`)
	third := m.decode("x:3")
	index.Remove(second.UID)
	require.Equal(t, mirror.Waiting, m.sync(third))
	require.Equal(t, three.UID, m.inAPI().UID)
	m.finalize(`[]`)
	n.await("the fourth mirror", func() bool { p := m.inAPI(); return p != nil && mirror.IsMirrorOf(p, third) })

	// The manifest is removed.
	four := m.inAPI()
	n.await("the fourth mirror in the index", func() bool { return index.Translate(four.UID) == third.UID })
	index.Remove(third.UID)
	require.NoError(t, client.DeleteOrphans(t.Context(), index.Orphans(), nil))
	n.await("nothing", func() bool { return m.inAPI() == nil && len(n.held()) == 0 })
}

// mirroring handles mirror pods like a node agent: the syncs of a static pod.
type mirroring struct {
	*testing.T
	node   *e2eNode
	index  *mirror.Index
	client *mirror.Client
	mu     sync.Mutex // one sync at a time
}

// take is called with every update of the API source.
func (m *mirroring) take(u podconfig.Update) {
	_, touched := m.index.Apply(u)
	for _, p := range touched {
		m.sync(p)
	}
}

// sync syncs a static pod, which is in the index or is added to it.
func (m *mirroring) sync(static *v1.Pod) mirror.Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.index.Put(static)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, known := m.index.Pair(static)
	outcome, err := m.client.Reconcile(ctx, static, known)
	var wait *mirror.BudgetError
	for errors.As(err, &wait) { // as a node agent, which calls again at that time
		time.Sleep(time.Until(wait.RetryAt))
		outcome, err = m.client.Reconcile(ctx, static, known)
	}
	if err != nil {
		m.Errorf("reconcile: %v", err)
	}
	return outcome
}

func (m *mirroring) decode(image string) *v1.Pod {
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "web", "namespace": "mirror"},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": image}}}})
	require.NoError(m, err)
	p, err := (&manifest.Decoder{NodeName: "mirror"}).Pod(text, manifest.Origin{Kind: manifest.OriginFile, Location: "/web"})
	require.NoError(m, err)
	p.Annotations[podconfig.AnnotationSource] = podconfig.SourceFile // as Store.Merge does
	return p
}

// inAPI returns the pod of the server, or nil.
func (m *mirroring) inAPI() *v1.Pod {
	p, err := m.node.admin.Pods("mirror").Get(m.Context(), "web-mirror", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(m, err)
	return p
}

func (m *mirroring) finalize(list string) {
	patch := []byte(`{"metadata":{"finalizers":` + list + `}}`)
	_, err := m.node.admin.Pods("mirror").Patch(m.Context(), "web-mirror", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(m, err)
}
