// SPDX-License-Identifier: Apache-2.0

package volumetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// Example has a volume that cannot be set up at the first try. The test of a plugin of your own
// calls Run; see the package's comment.
func Example() {
	root, err := os.MkdirTemp("", "volumes")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	var setUps atomic.Int32
	plugin := volumetest.NewPlugin(volumetest.Options{Behave: func(c volumetest.Call) volumetest.Behaviour {
		if c.Op == volumetest.OpSetUp && setUps.Add(1) == 1 {
			return volumetest.Behaviour{Err: errors.New("the server is away")}
		}
		return volumetest.Behaviour{}
	}})
	manager, err := volumemanager.New(volumemanager.Options{Root: root, Plugins: []volumemanager.Plugin{plugin}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- manager.Run(ctx) }()

	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "0001", Namespace: "default", Name: "web"},
		Spec: v1.PodSpec{
			Volumes:    []v1.Volume{{Name: "cache", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}},
			Containers: []v1.Container{{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "cache", MountPath: "/cache"}}}},
		},
	}
	err = manager.WaitForAttachAndMount(ctx, pod)
	fmt.Println("mounted:", plugin.Mounted(), "after", setUps.Load(), "tries, error:", err)
	fmt.Println("faults of the manager:", plugin.Violations())
	cancel()
	fmt.Println("ended:", <-ended)
	// Output:
	// mounted: [0001/cache] after 2 tries, error: <nil>
	// faults of the manager: []
	// ended: <nil>
}
