// SPDX-License-Identifier: Apache-2.0

package imagegctest_test

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/imagegc/imagegctest"
)

// Example removes the image of a running container. A correct collector never does, and the node
// records a violation.
func Example() {
	node := imagegctest.New(100 << 30)
	node.Add(imagegctest.Image{Tags: []string{"app:1"}, Layers: map[string]uint64{"base": 1 << 30, "app": 1 << 20}})
	node.Run("web", "app:1")

	ctx := context.Background()
	images, err := node.ListImages(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(images[0].Name(), images[0].Size>>20, "MiB, error:", node.RemoveImage(ctx, imagegc.Image{ID: images[0].ID}))
	capacity, available, err := node.ImageFS(ctx)
	fmt.Println("in use:", (capacity-available)>>20, "MiB, error:", err)
	fmt.Println("violations:", len(node.Violations()))
	// Output:
	// app:1 1025 MiB, error: <nil>
	// in use: 0 MiB, error: <nil>
	// violations: 1
}
