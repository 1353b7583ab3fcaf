// SPDX-License-Identifier: Apache-2.0

package recordfile_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/imagegc/imagegctest"
	"github.com/keelson-dev/keelson/imagegc/recordfile"
)

// The second collector knows the detection time of the first.
func Example() {
	dir, err := os.MkdirTemp("", "records-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	node := imagegctest.New(100 << 30)
	node.Add(imagegctest.Image{Tags: []string{"registry.example/app:1"}, Layers: map[string]uint64{"app": 1 << 30}})

	for range 2 {
		gc, err := imagegc.New(imagegc.Options{
			Images: node, InUse: node, Disk: node,
			Policy: imagegc.Policy{MinAge: -1, MaxAge: time.Nanosecond},
			Store:  recordfile.New(filepath.Join(dir, "images.json")),
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		result, err := gc.GarbageCollect(context.Background())
		fmt.Println(len(result.Removed), "removed, error:", err)
	}
	// Output:
	// 0 removed, error: <nil>
	// 1 removed, error: <nil>
}
