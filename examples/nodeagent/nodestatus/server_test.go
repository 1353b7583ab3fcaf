// SPDX-License-Identifier: Apache-2.0

package nodestatus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// server simulates an API server with a single node and a single lease.
type server struct {
	t *testing.T

	mu       sync.Mutex
	node     *v1.Node
	lease    *coordinationv1.Lease
	made     int
	down     error
	hang     bool
	requests []string
}

func (s *server) ask(ctx context.Context, what string) (done func(), err error) {
	s.mu.Lock()
	s.requests = append(s.requests, what)
	if s.hang {
		s.mu.Unlock()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if s.down != nil {
		defer s.mu.Unlock()
		return nil, s.down
	}
	return s.mu.Unlock, nil
}

// taken returns the requests since the last call.
func (s *server) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.requests
	s.requests = nil
	return all
}

// edit makes a change as another client.
func (s *server) edit(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what()
}

func (s *server) condition(of v1.NodeConditionType) v1.NodeCondition {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.node.Status.Conditions {
		if c.Type == of {
			return c
		}
	}
	return v1.NodeCondition{}
}

// nodes implements Nodes.
type nodes struct{ *server }

var nodeResource = schema.GroupResource{Resource: "nodes"}

func (s nodes) Get(ctx context.Context, name string, _ metav1.GetOptions) (*v1.Node, error) {
	done, err := s.ask(ctx, "get node")
	if err != nil {
		return nil, err
	}
	defer done()
	if s.node == nil {
		return nil, apierrors.NewNotFound(nodeResource, name)
	}
	return s.node.DeepCopy(), nil
}

func (s nodes) Create(ctx context.Context, node *v1.Node, _ metav1.CreateOptions) (*v1.Node, error) {
	done, err := s.ask(ctx, "create node")
	if err != nil {
		return nil, err
	}
	defer done()
	if s.node != nil {
		return nil, apierrors.NewAlreadyExists(nodeResource, node.Name)
	}
	s.made++
	s.node = node.DeepCopy()
	s.node.UID = types.UID(fmt.Sprintf("node-%d", s.made))
	s.node.Status = v1.NodeStatus{}
	return s.node.DeepCopy(), nil
}

func (s nodes) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, _ metav1.PatchOptions, sub ...string) (*v1.Node, error) {
	done, err := s.ask(ctx, fmt.Sprint("patch node ", sub))
	if err != nil {
		return nil, err
	}
	defer done()
	if s.node == nil {
		return nil, apierrors.NewNotFound(nodeResource, name)
	}
	s.node = patched(s.t, s.node, data)
	return s.node.DeepCopy(), nil
}

func patched(t *testing.T, node *v1.Node, patch []byte) *v1.Node {
	before, err := json.Marshal(node)
	require.NoError(t, err)
	after, err := strategicpatch.StrategicMergePatch(before, patch, v1.Node{})
	require.NoError(t, err)
	out := &v1.Node{}
	require.NoError(t, json.Unmarshal(after, out))
	return out
}

// leases implements Leases.
type leases struct{ *server }

var leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (s leases) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	done, err := s.ask(ctx, "get lease")
	if err != nil {
		return nil, err
	}
	defer done()
	if s.lease == nil {
		return nil, apierrors.NewNotFound(leaseResource, name)
	}
	return s.lease.DeepCopy(), nil
}

func (s leases) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	done, err := s.ask(ctx, "create lease")
	if err != nil {
		return nil, err
	}
	defer done()
	if s.lease != nil {
		return nil, apierrors.NewAlreadyExists(leaseResource, lease.Name)
	}
	s.lease = lease.DeepCopy()
	s.lease.ResourceVersion = "1"
	return s.lease.DeepCopy(), nil
}

func (s leases) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	done, err := s.ask(ctx, "update lease")
	if err != nil {
		return nil, err
	}
	defer done()
	switch {
	case s.lease == nil:
		return nil, apierrors.NewNotFound(leaseResource, lease.Name)
	case s.lease.ResourceVersion != lease.ResourceVersion:
		return nil, apierrors.NewConflict(leaseResource, lease.Name, nil)
	}
	version := s.lease.ResourceVersion
	s.lease = lease.DeepCopy()
	s.lease.ResourceVersion = version + "1"
	return s.lease.DeepCopy(), nil
}

// age returns the time since the last renewal of the lease.
func (s *server) age() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.lease.Spec.RenewTime.Time)
}
