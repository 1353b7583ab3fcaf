// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"testing"

	"k8s.io/client-go/rest"
)

// Start runs a fleet of n nodes for a test, and returns when the nodes are registered. At the end of
// the test it stops the agents and deletes the nodes.
func Start(t testing.TB, config *rest.Config, n int) *Fleet {
	t.Helper()
	f, err := New(Options{Config: config, Root: t.TempDir(), Nodes: n})
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
