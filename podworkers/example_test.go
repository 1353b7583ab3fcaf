// SPDX-License-Identifier: Apache-2.0

package podworkers_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/podworkers"
)

// printer is a syncer that prints its calls.
type printer struct{ running chan struct{} }

func (p printer) SyncPod(_ context.Context, r podworkers.SyncRequest) (podworkers.Outcome, error) {
	fmt.Println("start", r.Pod.Name)
	close(p.running)
	return podworkers.Outcome{}, nil
}

func (p printer) SyncTerminatingPod(_ context.Context, r podworkers.TerminatingRequest) error {
	fmt.Printf("stop %s within %d s\n", r.Pod.Name, r.GracePeriodSeconds)
	return nil
}

func (p printer) SyncTerminatedPod(_ context.Context, r podworkers.SyncRequest) error {
	fmt.Println("clean up after", r.Pod.Name)
	return nil
}

func Example() {
	syncer := printer{running: make(chan struct{})}
	finished := make(chan struct{})
	workers, err := podworkers.New(podworkers.Options{
		Syncer: syncer,
		OnSync: func(e podworkers.SyncEvent) {
			if e.State == podworkers.StateTerminated {
				close(finished)
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- workers.Run(ctx) }()

	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1234", Namespace: "default", Name: "web"}}
	if err := workers.UpdatePod(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod}); err != nil {
		fmt.Println(err)
	}
	<-syncer.running

	grace := int64(5)
	if err := workers.KillPod(ctx, pod, podworkers.KillOptions{GracePeriodSeconds: &grace}); err != nil {
		fmt.Println(err)
	}
	<-finished
	fmt.Println("may have running containers:", workers.CouldHaveRunningContainers(pod.UID))

	cancel()
	fmt.Println("Run:", <-ended)
	// Output:
	// start web
	// stop web within 5 s
	// clean up after web
	// may have running containers: false
	// Run: <nil>
}
