// SPDX-License-Identifier: Apache-2.0

package loglinks_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/loglinks"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podstatus"
)

// Example links the log of a container. A node calls the functions of the feature; here the example
// does.
func Example() {
	root, err := os.MkdirTemp("", "loglinks")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	dir, logs := filepath.Join(root, "containers"), filepath.Join(root, "pods")
	links, err := loglinks.New(&feature.Host{Table: feature.NewTable(), Log: zap.NewNop()}, loglinks.Options{Dir: dir, Logs: logs})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "shop", "web", "4711"
	links.Input(pod, &podstatus.Input{Observed: &runtime.PodStatus{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name,
		Containers: []runtime.ContainerStatus{{
			Name: "nginx", ID: runtime.ContainerID{Runtime: "fake", ID: "1a2b"}, LogPath: filepath.Join(logs, "shop_web_4711", "nginx", "0.log"),
		}},
	}})
	ctx, stop := context.WithCancel(context.Background())
	stop() // a single pass
	if err := links.Run(ctx); err != nil {
		fmt.Println(err)
	}
	names, _ := os.ReadDir(dir)
	for _, name := range names {
		fmt.Println(name.Name())
	}
	// Output: web_shop_nginx-1a2b.log
}
