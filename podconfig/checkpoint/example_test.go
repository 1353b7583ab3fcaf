// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/checkpoint"
)

// boot starts an agent that receives updates from its checkpoint first and then from a server, if
// reachable.
func boot(path string, server func(ctx context.Context, out podconfig.Sink) error) {
	seed, err := checkpoint.Read(path)
	if err != nil {
		fmt.Println(err) // the seed is empty, so that the node waits for its sources
	}
	store, err := podconfig.NewStore(podconfig.StoreOptions{Seed: seed})
	if err != nil {
		fmt.Println(err)
		return
	}
	keeper, err := checkpoint.New(checkpoint.Options{Path: path, Pods: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	ready := podconfig.NewReadiness(podconfig.SourceAPI)
	handle := func(_ context.Context, u podconfig.Update) error {
		ready.Consumed(u)
		for _, p := range u.Pods {
			fmt.Println(u.Op, p.Name)
		}
		if u.Synced {
			fmt.Println("ready:", ready.AllReady())
		}
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	for _, u := range store.Replay() {
		_ = handle(ctx, u)
	}
	ended := make(chan error)
	go func() { ended <- keeper.Run(ctx) }()
	source := podconfig.SourceFunc(podconfig.SourceAPI, func(ctx context.Context, out podconfig.Sink) error {
		defer cancel() // so that the example ends
		return server(ctx, out)
	})
	if err := podconfig.Run(ctx, store, keeper.Tee(handle), source); err != nil {
		fmt.Println(err)
	}
	if err := <-ended; err != nil {
		fmt.Println(err)
	}
}

// A node boots three times. At the second boot its server is down. Before the third boot a pod was
// deleted.
func Example() {
	dir, err := os.MkdirTemp("", "example-*")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "pods.checkpoint")
	web := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"}}
	db := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "default", UID: "2"}}

	fmt.Println("- the first time")
	boot(path, func(ctx context.Context, out podconfig.Sink) error {
		return out.Submit(ctx, podconfig.Snapshot(web, db))
	})
	fmt.Println("- offline")
	boot(path, func(context.Context, podconfig.Sink) error { return nil })
	fmt.Println("- online again")
	boot(path, func(ctx context.Context, out podconfig.Sink) error { return out.Submit(ctx, podconfig.Snapshot(db)) })
	// Output:
	// - the first time
	// ADD web
	// ADD db
	// ready: true
	// - offline
	// ADD web
	// ADD db
	// - online again
	// ADD web
	// ADD db
	// REMOVE web
	// ready: true
}
