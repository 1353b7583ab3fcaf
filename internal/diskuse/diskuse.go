// SPDX-License-Identifier: Apache-2.0

// Package diskuse measures the disk space of folders that containers can write to. Links are not
// followed, and other mounts are not entered.
package diskuse

import (
	"context"
	"os"
	"time"

	"github.com/keelson-dev/keelson/internal/tree"
)

// Usage is the disk usage of a folder.
type Usage struct {
	At     time.Time // the start of the measurement
	Bytes  uint64    // allocated on the disk
	Inodes uint64    // files and folders, including the folder itself
}

// Of measures a folder. A file with several names in the folder counts once. The error is ctx's, or
// that of an unreadable folder. A file that is created or removed during the call may be missing.
func Of(ctx context.Context, folder string) (Usage, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return Usage{}, err
	}
	defer root.Close()
	u := Usage{At: time.Now()}
	counted := map[uint64]bool{} // inodes with several names
	err = tree.Walk(root, ".", func(e *tree.Entry) error {
		if e.Links > 1 && !e.Mode.IsDir() {
			if counted[e.Inode] {
				return nil
			}
			counted[e.Inode] = true
		}
		u.Bytes += uint64(max(e.Allocated, 0))
		u.Inodes++
		return ctx.Err()
	})
	return u, err
}
