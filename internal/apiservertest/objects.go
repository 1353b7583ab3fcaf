// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Core returns a new client of the core API, with the permissions of Config, for checks and changes
// independent of the code under test.
func (s *Server) Core() (*corev1.CoreV1Client, error) { return corev1.NewForConfig(s.Config()) }

// CreateNode creates a ready node with room for 1,000 pods.
func (s *Server) CreateNode(ctx context.Context, name string) (*v1.Node, error) {
	core, err := s.Core()
	if err != nil {
		return nil, err
	}
	return core.Nodes().Create(ctx, Node(name), metav1.CreateOptions{})
}

// CreateNamespace creates a namespace. The namespace stays as long as the server, because no
// controller completes its deletion. An existing namespace is no error.
func (s *Server) CreateNamespace(ctx context.Context, name string) error {
	core, err := s.Core()
	if err != nil {
		return err
	}
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err = core.Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// creators is the number of concurrent creations. More would not be faster on two cores.
const creators = 8

// CreatePods creates pods, several at a time, and returns the created pods, in the order of the
// arguments. After an error some pods may exist.
func (s *Server) CreatePods(ctx context.Context, pods ...*v1.Pod) ([]*v1.Pod, error) {
	core, err := s.Core()
	if err != nil {
		return nil, err
	}
	created, errs := make([]*v1.Pod, len(pods)), make([]error, creators)
	var next atomic.Int64
	var workers sync.WaitGroup
	for w := range creators {
		workers.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(pods) {
					return
				}
				created[i], errs[w] = core.Pods(pods[i].Namespace).Create(ctx, pods[i], metav1.CreateOptions{})
			}
		})
	}
	workers.Wait()
	return created, errors.Join(errs...)
}

// Node returns a ready node with room for 1,000 pods.
func Node(name string) *v1.Node {
	room := v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse("64"),
		v1.ResourceMemory: resource.MustParse("256Gi"),
		v1.ResourcePods:   resource.MustParse("1000"),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Status: v1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []v1.NodeCondition{{
				Type: v1.NodeReady, Status: v1.ConditionTrue,
				Reason: "KeelsonTest", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			}},
		},
	}
}

// Pod returns a pod with one container, bound to node, because no scheduler runs. Its grace period
// is zero, so that a deletion is one event.
func Pod(namespace, name, node string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1.PodSpec{
			NodeName:                      node,
			TerminationGracePeriodSeconds: new(int64(0)),
			Containers:                    []v1.Container{{Name: "main", Image: "localhost/busybox:1"}},
		},
	}
}
