// SPDX-License-Identifier: Apache-2.0

package podsync_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

// Example runs a pod by hand. A program has podworkers call Sync, Stop and Release.
func Example() {
	rt, err := fake.New(fake.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pods, err := podsync.New(podsync.Options{
		Runtime:   rt,
		Generator: runtime.DefaultGeneratorOptions{LogRoot: "/var/log/pods"},
		Status:    func(pod *v1.Pod, status v1.PodStatus) { fmt.Println(pod.Name, status.Phase, podsync.Ready(&status)) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, pod := context.Background(), newPod("web", v1.RestartPolicyAlways)
	over, _, err := pods.Sync(ctx, pod)
	fmt.Println("over:", over, "error:", err)
	err = pods.Stop(ctx, pod.UID, pod, 30*time.Second, func(*v1.PodStatus) {})
	fmt.Println("stopped, error:", err)
	// Output:
	// web Pending false
	// web Running true
	// over: false error: <nil>
	// web Running false
	// stopped, error: <nil>
}
