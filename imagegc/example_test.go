// SPDX-License-Identifier: Apache-2.0

package imagegc_test

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/imagegc/imagegctest"
)

// A disk of 100 GiB is 90 % full. A pod runs from an image, and another pod is about to start.
func Example() {
	node := imagegctest.New(100 << 30)
	for name, size := range map[string]uint64{"web:1": 40, "web:2": 20, "job:1": 30} {
		tag := "registry.example/" + name
		node.Add(imagegctest.Image{Tags: []string{tag}, Layers: map[string]uint64{tag: size << 30}})
	}
	node.Run("web", "registry.example/web:2")

	gc, err := imagegc.New(imagegc.Options{
		Images: node, InUse: node, Disk: node,
		Policy: imagegc.Policy{HighPercent: 85, LowPercent: 70, MinAge: -1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	lease, err := gc.Hold(ctx, "registry.example/job:1") // before checking for the image
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := gc.GarbageCollect(ctx)
	lease.Release() // the pod's containers are created

	for _, removed := range result.Removed {
		fmt.Println("removed", removed)
	}
	for _, kept := range result.Kept {
		fmt.Println("kept", kept.Image.Name()+":", kept.Reason)
	}
	fmt.Println(result.UsagePercent, "% full, error:", err)
	// Output:
	// removed registry.example/web:1 (40.0 GiB, space)
	// kept registry.example/job:1: held
	// kept registry.example/web:2: in use
	// 50 % full, error: <nil>
}

// Plan prints the decisions before any image is removed.
func ExampleCollector_Plan() {
	node := imagegctest.New(100 << 30)
	node.Add(imagegctest.Image{Tags: []string{"registry.example/old:1"}, Layers: map[string]uint64{"a": 60 << 30}})
	node.Add(imagegctest.Image{Tags: []string{"registry.k8s.io/pause:3.9"}, Layers: map[string]uint64{"b": 1 << 20}})
	node.Fill(30 << 30)
	gc, err := imagegc.New(imagegc.Options{
		Images: node, InUse: node, Disk: node,
		Policy: imagegc.Policy{MinAge: -1, Protected: []string{"registry.k8s.io/pause"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := gc.Plan(context.Background(), imagegc.GoalThreshold)
	fmt.Print(plan)
	fmt.Println(err)
	// Output:
	// image file system 91 % full, 10.0 GiB available of 100.0 GiB: free 10.0 GiB
	// remove registry.example/old:1 60.0 GiB: space, never used since it came 0s ago
	// keep   registry.k8s.io/pause:3.9 1.0 MiB: protected by "registry.k8s.io/pause"
	// <nil>
}
