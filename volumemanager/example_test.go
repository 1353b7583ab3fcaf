// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// A pod gets its volumes, the agent is restarted, and the pod ends.
func Example() {
	root, err := os.MkdirTemp("", "volumes")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	pods := &volumetest.Pods{} // in an agent: *podworkers.Workers
	plugin := volumetest.NewPlugin(volumetest.Options{Folders: true})
	pod := podWith("0001", "cache", "scratch")

	agent := func(life func(context.Context, *volumemanager.Manager) error) {
		manager, err := volumemanager.New(volumemanager.Options{
			Pods: pods, Root: root, Plugins: []volumemanager.Plugin{plugin},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- manager.Run(ctx) }()
		err = life(ctx, manager)
		cancel()
		fmt.Println("stopped:", errors.Join(err, <-ended), "- still mounted:", plugin.Mounted())
	}

	agent(func(ctx context.Context, manager *volumemanager.Manager) error {
		if err := manager.WaitForAttachAndMount(ctx, pod); err != nil {
			return err
		}
		fmt.Println("volumes that are ready:", len(manager.GetMountedVolumesForPod(pod.UID)))
		return nil
	})
	agent(func(ctx context.Context, manager *volumemanager.Manager) error {
		pods.Set(pod.UID, volumetest.Gone) // none of its containers runs
		return manager.WaitForUnmount(ctx, pod.UID)
	})
	// Output:
	// volumes that are ready: 2
	// stopped: <nil> - still mounted: [0001/cache 0001/scratch]
	// stopped: <nil> - still mounted: []
}
