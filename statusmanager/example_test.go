// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// A pod is started, found ready, asked to end, and deleted. statustest.Server stands for the API server; a real one is
// written to by statusmanager/statuspatch.
func Example() {
	server, err := statustest.New(statustest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	manager, err := statusmanager.New(statusmanager.Options{Patcher: server, Drain: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	server.Watch(manager.Observed)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- manager.Run(ctx) }()
	synced := func(_ bool, err error) {
		if err == nil {
			err = manager.WaitSynced(ctx, "1234")
		}
		if err != nil {
			fmt.Println(err)
		}
	}

	pod := server.Create(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1234"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "web"}}},
	})
	synced(manager.SetPodStatus(pod, v1.PodStatus{
		Phase: v1.PodRunning,
		ContainerStatuses: []v1.ContainerStatus{{
			Name: "web", ContainerID: "fake://w0", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		}},
	}))
	synced(manager.SetContainerReadiness(pod.UID, "fake://w0", true))
	fmt.Println(server.Get(pod.UID).Status.Phase, server.Get(pod.UID).Status.ContainerStatuses[0].Ready)

	if pod, err = server.Delete(pod.UID); err != nil {
		fmt.Println(err)
	}
	synced(manager.TerminatePod(pod)) // nothing of it runs any more
	cancel()
	<-done
	for _, entry := range server.Journal() {
		fmt.Println(entry.Request, entry.Phase)
	}
	// Output:
	// Running true
	// patch Running
	// patch Running
	// patch Failed
	// delete Failed
}
