// SPDX-License-Identifier: Apache-2.0

package fsnotify_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/podconfig/file/fsnotify"
)

func Example() {
	dir, err := os.MkdirTemp("", "example-*")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	hints, err := fsnotify.Hinter{}.Hints(ctx, dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "web.yaml"), nil, 0o644); err != nil {
		fmt.Println(err)
	}
	<-hints
	fmt.Println("something changed")
	cancel()
	for range hints {
	}
	fmt.Println("the watch has ended")
	// Output:
	// something changed
	// the watch has ended
}
