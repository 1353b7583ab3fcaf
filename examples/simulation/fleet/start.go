// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// Start runs a fleet of n nodes for a test, and returns when the nodes are registered. If the API
// server has no kube-scheduler, the fleet binds pods to its nodes. At the end of the test it stops the
// agents and deletes the nodes.
func Start(t testing.TB, config *rest.Config, n int) *Fleet {
	t.Helper()
	scheduled, err := hasScheduler(t.Context(), config)
	if err != nil {
		t.Fatal("look for a scheduler: ", err)
	}
	f, err := New(Options{Config: config, Root: t.TempDir(), Nodes: n, Schedule: !scheduled})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := f.Delete(context.Background()); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-f.Registered():
	case err := <-done:
		done <- nil
		t.Fatal("the fleet ended: ", err)
	case <-t.Context().Done():
		t.Fatal("the test ended before the nodes were registered")
	}
	return f
}

// hasScheduler reports whether a kube-scheduler has had a lease.
func hasScheduler(ctx context.Context, config *rest.Config) (bool, error) {
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return false, err
	}
	_, err = client.Leases(metav1.NamespaceSystem).Get(ctx, "kube-scheduler", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
