// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/keelson-dev/keelson/internal/diskuse"
	"github.com/keelson-dev/keelson/internal/tree"
)

// reclaim makes all files in the folders of the arguments belong to root of this process's user namespace, which is the
// agent's user outside. A file of a user without a number here stays.
func reclaim() error {
	var errs []error
	for _, folder := range os.Args[1:] {
		if err := take(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s: %w", folder, err))
		}
	}
	return errors.Join(errs...)
}

// measure prints the disk usage of the folder.
func measure() error {
	used, err := diskuse.Of(context.Background(), os.Args[1])
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(used)
}

func take(folder string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	return tree.Walk(root, ".", func(e *tree.Entry) error {
		if e.UID == 0 && e.GID == 0 {
			return nil
		}
		if err := e.Chown(0, 0); !errors.Is(err, fs.ErrPermission) {
			return err
		}
		return nil
	})
}
