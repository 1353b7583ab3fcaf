// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/internal/tree"
)

// link adds the missing top-level links of the payload, then removes links of removed keys.
func (w *writer) link() error {
	want := w.payload.tops()
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(want)) {
		there := w.isPresent(name)
		if there && w.isOurs(name) {
			continue
		}
		if err := w.relink(name, there); err != nil {
			failed = append(failed, fmt.Errorf("link %s: %w", Shown(name), tree.Cause(err)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.present)) {
		if w.present[name]&fs.ModeSymlink == 0 || strings.HasPrefix(name, "..") || want[name] || !w.isOurs(name) {
			continue
		}
		if err := w.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, fmt.Errorf("link %s: %w", Shown(name), tree.Cause(err)))
		}
	}
	return errors.Join(failed...)
}

// isOurs reports whether name is a link made by relink.
func (w *writer) isOurs(name string) bool {
	target, err := w.readlink(name)
	return err == nil && target == path.Join(dataLink, name)
}

// relink makes a link to a key, and replaces a present file, link or empty folder.
func (w *writer) relink(name string, there bool) error {
	if there {
		// The remove of a folder with content fails, because the content is not the plugin's.
		if err := w.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return w.symlink(path.Join(dataLink, name), name)
}

// sweep removes versions that are neither current nor kept, and the link of an incomplete commit.
func (w *writer) sweep(current string) error {
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(w.present)) {
		stale := isVersion(name) && name != current && (w.options.Keep == nil || !w.options.Keep(name))
		if !stale && name != tempLink {
			continue
		}
		if err := w.removeAll(name); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, tree.Cause(err)))
		}
	}
	return errors.Join(failed...)
}
