// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
)

// The agent creates a missing Node object, writes its status and renews its lease, with only the
// permissions of a node. A shutdown that stops the pods makes the node NotReady.
func TestANodeOfAnAPIServer(t *testing.T) {
	c := newClustered(t, backends["process"])
	nodes := c.core.Nodes()
	require.NoError(t, nodes.Delete(t.Context(), "n", metav1.DeleteOptions{}))
	c.start(append(c.flags, "--node-labels=site=north", "--register-with-taints=edge=yes:NoSchedule", "--max-pods=7", "--system-reserved=memory=1Mi")...)

	var node *v1.Node
	ready := func(want v1.ConditionStatus) func() bool {
		return func() (is bool) {
			var err error
			if node, err = nodes.Get(t.Context(), "n", metav1.GetOptions{}); err != nil {
				return false
			}
			for _, cond := range node.Status.Conditions {
				is = is || cond.Type == v1.NodeReady && cond.Status == want
			}
			return is
		}
	}
	c.eventually("the node is ready", ready(v1.ConditionTrue))
	require.Equal(t, "north", node.Labels["site"])
	require.Equal(t, runtime.GOARCH, node.Labels[v1.LabelArchStable])
	require.Contains(t, node.Spec.Taints, v1.Taint{Key: "edge", Value: "yes", Effect: v1.TaintEffectNoSchedule})
	require.True(t, node.Status.Allocatable[v1.ResourcePods].Equal(resource.MustParse("7")))
	require.Equal(t, -1, node.Status.Allocatable.Memory().Cmp(*node.Status.Capacity.Memory()))
	require.Equal(t, host.Behaviour+"+keelson", node.Status.NodeInfo.KubeletVersion)
	require.Equal(t, "true", node.Annotations["volumes.kubernetes.io/controller-managed-attach-detach"])
	require.Equal(t, runtime.GOOS, node.Labels["beta.kubernetes.io/os"])
	require.NotEmpty(t, node.Status.NodeInfo.SystemUUID)
	require.Contains(t, node.Status.Addresses, v1.NodeAddress{Type: v1.NodeHostName, Address: "n"})
	var said []string
	for _, c := range node.Status.Conditions {
		said = append(said, fmt.Sprintf("%s %s %s %s", c.Type, c.Status, c.Reason, c.Message))
	}
	require.Contains(t, said, "Ready True KubeletReady kubelet is posting ready status")
	require.Len(t, said, 4, "ready, and three kinds of pressure")

	leases, err := coordination.NewForConfig(c.server.Config())
	require.NoError(t, err)
	renewed := func() time.Time {
		lease, err := leases.Leases(v1.NamespaceNodeLease).Get(t.Context(), "n", metav1.GetOptions{})
		if err != nil {
			return time.Time{}
		}
		require.Equal(t, node.UID, lease.OwnerReferences[0].UID)
		return lease.Spec.RenewTime.Time
	}
	var first time.Time
	c.eventually("there is a lease", func() bool { first = renewed(); return !first.IsZero() })
	c.eventually("the lease is renewed", func() bool { return renewed().After(first) })

	c.bind("web", `trap "" TERM; `+forever) // which takes its two seconds to end
	c.told("web", "runs", running)
	c.interrupt()
	require.True(t, ready(v1.ConditionFalse)(), "the node said that it stops")
}

func TestUnregistered(t *testing.T) {
	c := newClustered(t, backends["process"])
	c.start(append(c.flags, "--register-node=false")...)
	c.bind("web", forever)
	c.told("web", "runs", running)
	node, err := c.core.Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	require.NoError(t, err)
	require.Empty(t, node.Status.NodeInfo.KubeletVersion, "it is somebody else's to say")
}
