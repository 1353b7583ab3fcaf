// SPDX-License-Identifier: Apache-2.0

package volumeapi_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keelson-dev/keelson/internal/clienttest"
	"github.com/keelson-dev/keelson/volumemanager/volumeapi"
)

// csiNode is a node with fake drivers and a fake server.
type csiNode struct {
	*testing.T
	*clienttest.Clients
	log *observer.ObservedLogs

	mu      sync.Mutex
	answers map[string]volumeapi.DriverInfo
}

func (n *csiNode) info(_ context.Context, driver string) (volumeapi.DriverInfo, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if info, ok := n.answers[driver]; ok {
		return info, nil
	}
	return volumeapi.DriverInfo{}, errors.New("no such socket")
}

// says sets the drivers' answers from now on, and lets time pass.
func (n *csiNode) says(answers map[string]volumeapi.DriverInfo, pass time.Duration) {
	n.mu.Lock()
	n.answers = answers
	n.mu.Unlock()
	time.Sleep(pass)
	synctest.Wait()
}

// has returns the drivers in the server's object: the IDs, with their limits.
func (n *csiNode) has() map[string]int32 {
	n.Helper()
	object, err := n.StorageV1().CSINodes().Get(n.Context(), "n", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(n, err)
	require.Equal(n, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: n.node().UID}}, object.OwnerReferences)
	ids := make(map[string]int32)
	for _, d := range object.Spec.Drivers {
		ids[d.Name+"="+d.NodeID] = 0
		if d.Allocatable != nil {
			ids[d.Name+"="+d.NodeID] = *d.Allocatable.Count
		}
	}
	return ids
}

func (n *csiNode) node() *v1.Node {
	n.Helper()
	node, err := n.CoreV1().Nodes().Get(n.Context(), "n", metav1.GetOptions{})
	require.NoError(n, err)
	return node
}

// writes counts the requests that wrote a CSINode.
func (n *csiNode) writes() (count int) {
	for _, a := range n.Actions() {
		if a.GetResource().Resource == "csinodes" && a.GetVerb() != "get" {
			count++
		}
	}
	return count
}

// answer adds a reactor before the server's reactors, between two requests, because the fake reads
// its reactors without a lock.
func (n *csiNode) answer(verb, resource string, f clienttesting.ReactionFunc) {
	synctest.Wait()
	n.PrependReactor(verb, resource, f)
}

// withDrivers runs a test on a node with drivers a and b, in virtual time.
func withDrivers(t *testing.T, test func(n *csiNode), there ...runtime.Object) {
	synctest.Test(t, func(t *testing.T) {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node-1", Labels: map[string]string{"zone": "z1"}}}
		core, logged := observer.New(zap.WarnLevel)
		n := &csiNode{T: t, Clients: clienttest.New(append(there, node)...), log: logged}
		published, err := volumeapi.NewCSINode(volumeapi.CSINodeOptions{
			Client: volumeapi.FromStorage(n.StorageV1()), Nodes: volumeapi.FromCore(n.CoreV1()), NodeName: "n", Drivers: []string{"b", "a"}, Info: n.info, Logger: zap.New(core),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- published.Run(ctx) }()
		test(n)
		cancel()
		require.NoError(t, <-done)
		require.ErrorIs(t, published.Run(t.Context()), volumeapi.ErrRunning)
	})
}

func TestDriversComeAndGo(t *testing.T) {
	withDrivers(t, func(n *csiNode) {
		synctest.Wait()
		require.Equal(t, map[string]int32{}, n.has(), "none so far")
		a := volumeapi.DriverInfo{NodeID: "node-a", MaxVolumes: 3, Topology: map[string]string{"zone": "z1", "a.example/rack": "r7"}}
		n.says(map[string]volumeapi.DriverInfo{"a": a}, 10*time.Second)
		require.Equal(t, map[string]int32{"a=node-a": 3}, n.has())
		require.Equal(t, map[string]string{"zone": "z1", "a.example/rack": "r7"}, n.node().Labels)
		require.Equal(t, `{"a":"node-a"}`, n.node().Annotations["csi.volume.kubernetes.io/nodeid"])
		object, err := n.StorageV1().CSINodes().Get(t.Context(), "n", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, []string{"a.example/rack", "zone"}, object.Spec.Drivers[0].TopologyKeys)

		b := volumeapi.DriverInfo{NodeID: "node-b", MaxVolumes: 1 << 40}
		n.says(map[string]volumeapi.DriverInfo{"a": a, "b": b}, 10*time.Second)
		require.Equal(t, map[string]int32{"a=node-a": 3, "b=node-b": 1<<31 - 1}, n.has())
		writes, all := n.writes(), len(n.Actions())
		time.Sleep(4 * time.Minute)
		require.Len(t, n.Actions(), all, "nothing is asked of the server for nothing")
		time.Sleep(4 * time.Minute)
		require.Greater(t, len(n.Actions()), all, "but once in a while")
		require.Equal(t, writes, n.writes())

		a.MaxVolumes = 5
		n.says(map[string]volumeapi.DriverInfo{"a": a}, 40*time.Second)
		require.Equal(t, map[string]int32{"a=node-a": 5, "b=node-b": 1<<31 - 1}, n.has(), "b may be being replaced")
		n.says(map[string]volumeapi.DriverInfo{"a": a}, 40*time.Second)
		require.Equal(t, map[string]int32{"a=node-a": 5}, n.has())
		require.Equal(t, "r7", n.node().Labels["a.example/rack"])
		require.Empty(t, n.log.All())
	})
}

// The server refuses changes of an entry: the entry is removed, then added with its new content.
func TestEntriesAreReplaced(t *testing.T) {
	withDrivers(t, func(n *csiNode) {
		n.answer("update", "csinodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
			next := a.(clienttesting.UpdateAction).GetObject().(*storagev1.CSINode)
			now, err := n.Tracker().Get(a.GetResource(), "", "n")
			require.NoError(t, err)
			for _, old := range now.(*storagev1.CSINode).Spec.Drivers {
				for _, d := range next.Spec.Drivers {
					if d.Name == old.Name && d.NodeID != old.NodeID {
						return true, nil, apierrors.NewInvalid(storagev1.SchemeGroupVersion.WithKind("CSINode").GroupKind(), "n", nil)
					}
				}
			}
			return false, nil, nil
		})
		n.says(map[string]volumeapi.DriverInfo{"a": {NodeID: "old"}, "b": {NodeID: "node-b"}}, 10*time.Second)
		require.Equal(t, map[string]int32{"a=old": 0, "b=node-b": 0}, n.has())
		n.says(map[string]volumeapi.DriverInfo{"a": {NodeID: "new"}, "b": {NodeID: "node-b"}}, 20*time.Second)
		require.Equal(t, map[string]int32{"a=new": 0, "b=node-b": 0}, n.has())
		require.Empty(t, n.log.All())
	})
}

func csiNodeOf(uid, driver string) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: "n", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "node-1"}}},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: uid}}},
	}
}

// A new agent keeps the entry of an own driver that is not up yet, and removes the entry of a
// foreign driver.
func TestWhatAnAgentBeforeHasPublished(t *testing.T) {
	withDrivers(t, func(n *csiNode) {
		n.says(nil, 30*time.Second)
		require.Equal(t, map[string]int32{"a=node-a": 0}, n.has())
		n.says(nil, time.Minute)
		require.Equal(t, map[string]int32{}, n.has(), "it did not come")
	}, csiNodeOf("node-a", "a"))
	withDrivers(t, func(n *csiNode) {
		n.says(nil, 10*time.Second)
		require.Equal(t, map[string]int32{}, n.has())
	}, csiNodeOf("node-x", "x"))
}

// An object of a deleted Node belongs to another node.
func TestTheObjectOfAnotherNodeIsReplaced(t *testing.T) {
	stale := csiNodeOf("node-a", "a")
	stale.OwnerReferences[0].UID = "node-0"
	withDrivers(t, func(n *csiNode) {
		n.says(map[string]volumeapi.DriverInfo{"b": {NodeID: "node-b"}}, 20*time.Second)
		require.Equal(t, map[string]int32{"b=node-b": 0}, n.has())
	}, stale)
}

// A driver whose topology contradicts the node is left out, and the other drivers are published.
// After an outage the request is retried.
func TestTroubleWithACSINodeIsToldOnce(t *testing.T) {
	withDrivers(t, func(n *csiNode) {
		down := true
		n.answer("*", "csinodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			return down, nil, apierrors.NewInternalError(errors.New("etcd"))
		})
		n.says(map[string]volumeapi.DriverInfo{"a": {NodeID: "node-a", Topology: map[string]string{"zone": "z2"}}, "b": {NodeID: "node-b"}}, time.Minute)
		before := n.log.Len()
		n.mu.Lock()
		down = false
		n.mu.Unlock()
		time.Sleep(30 * time.Second)
		require.Equal(t, map[string]int32{"b=node-b": 0}, n.has())
		require.Equal(t, "z1", n.node().Labels["zone"])
		require.Equal(t, 1, n.log.Len()-before)
		require.Contains(t, n.log.All()[before].ContextMap()["error"], "driver a says zone=z2, and the node is labelled zone=z1")
	})
}

func TestNewCSINodeNamesTheBadField(t *testing.T) {
	clients := clienttest.New()
	good := volumeapi.CSINodeOptions{Client: volumeapi.FromStorage(clients.StorageV1()), Nodes: volumeapi.FromCore(clients.CoreV1()), NodeName: "n", Drivers: []string{"a"},
		Info: func(context.Context, string) (volumeapi.DriverInfo, error) { return volumeapi.DriverInfo{}, nil }}
	for field, spoil := range map[string]func(*volumeapi.CSINodeOptions){
		"Client":   func(o *volumeapi.CSINodeOptions) { o.Client = nil },
		"Nodes":    func(o *volumeapi.CSINodeOptions) { o.Nodes = nil },
		"NodeName": func(o *volumeapi.CSINodeOptions) { o.NodeName = "" },
		"Drivers":  func(o *volumeapi.CSINodeOptions) { o.Drivers = nil },
		"Info":     func(o *volumeapi.CSINodeOptions) { o.Info = nil },
	} {
		o := good
		spoil(&o)
		_, err := volumeapi.NewCSINode(o)
		require.ErrorIs(t, err, volumeapi.ErrOptions)
		require.ErrorContains(t, err, "CSINodeOptions."+field)
	}
}
