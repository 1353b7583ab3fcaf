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

	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/tree"
)

// link makes the links of the volume's top fit the payload: first the new ones, then no more of those that are gone.
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

// isOurs reports whether a name is the link that relink makes.
func (w *writer) isOurs(name string) bool {
	target, err := w.readlink(name)
	return err == nil && target == path.Join(dataLink, name)
}

// relink makes a link to a key, in place of whatever bears its name.
func (w *writer) relink(name string, there bool) error {
	if there {
		// A file, a foreign link or an empty folder goes; a folder with something in it is not ours to empty.
		if err := w.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return w.symlink(path.Join(dataLink, name), name)
}

// sweep removes versions that are neither current nor kept, and the link of a commit that was not completed.
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
