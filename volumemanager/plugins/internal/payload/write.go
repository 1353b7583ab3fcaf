// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/tree"
)

const (
	dataLink   = "..data"
	tempLink   = "..data_tmp"
	versionFmt = "..2006_01_02_15_04_05."
)

// Options are the options of a Write. The zero value is valid.
type Options struct {
	// Own sets the owners of a new version before the commit: root is the volume, version the
	// folder in it. Defaults to the agent's user and each File's own.
	Own func(root *os.Root, version string) error
	// Keep reports whether an old version is still mounted and must stay. Defaults to false.
	Keep func(version string) bool
	// Fresh: the folder is empty, so Write does not read it. Defaults to false.
	Fresh bool
}

// Write replaces the content of a volume's folder, which must exist, by the payload, and reports
// whether the content changed. If paths and contents are the same already, no new version is
// written. Leftovers of a crash, and foreign files at the plugin's names, are repaired in any case.
// An error before the commit leaves the present version unchanged.
//
// The caller prevents concurrent calls for the same volume. Errors name paths, never contents.
func Write(ctx context.Context, root *os.Root, p Payload, o Options) (changed bool, err error) {
	return write(ctx, root, disk{root}, p, o)
}

func write(ctx context.Context, root *os.Root, d folder, p Payload, o Options) (changed bool, err error) {
	if err := p.check(); err != nil {
		return false, err
	}
	w := writer{root: root, folder: d, payload: p, options: o}
	if err := w.look(); err != nil {
		return false, err
	}
	current := w.current()
	if current == "" || !w.same(current) {
		version, err := w.version(ctx)
		if err == nil {
			err = w.commit(version)
		}
		if err != nil {
			if version != "" {
				// The next Write removes any remains.
				_ = d.removeAll(version)
			}
			return false, err
		}
		current, changed = version, true
	}
	return changed, errors.Join(w.link(), w.sweep(current))
}

type writer struct {
	folder
	root    *os.Root
	payload Payload
	options Options
	// present is the initial content of the volume's folder.
	present map[string]fs.FileMode
}

// look reads the folder once, which saves a lookup for each name.
func (w *writer) look() error {
	if w.options.Fresh {
		w.present = map[string]fs.FileMode{}
		return nil
	}
	entries, err := w.readDir(".")
	if err != nil {
		return fmt.Errorf("look at the folder: %w", tree.Cause(err))
	}
	w.present = make(map[string]fs.FileMode, len(entries))
	for _, e := range entries {
		w.present[e.Name()] = e.Type()
	}
	return nil
}

func (w *writer) isPresent(name string) bool {
	_, ok := w.present[name]
	return ok
}

// isVersion reports whether name has the format of newVersion.
func isVersion(name string) bool {
	stamp, random, ok := strings.Cut(strings.TrimPrefix(name, ".."), ".")
	if !ok || random == "" || strings.ContainsRune(random, '/') {
		return false
	}
	_, err := time.Parse(versionFmt, ".."+stamp+".")
	return err == nil && strings.HasPrefix(name, "..")
}

func (w *writer) current() string {
	if w.present != nil && !w.isPresent(dataLink) {
		return ""
	}
	name, err := w.readlink(dataLink)
	if err != nil || !isVersion(name) {
		return ""
	}
	if info, err := w.lstat(name); err != nil || !info.IsDir() {
		return ""
	}
	return name
}

// same reports whether a version has exactly the paths and contents of the payload.
func (w *writer) same(version string) bool {
	n := 0
	return w.sameDir(version, "", &n) && n == len(w.payload)
}

func (w *writer) sameDir(version, dir string, n *int) bool {
	entries, err := w.readDir(path.Join(version, dir))
	if err != nil {
		return false
	}
	for _, e := range entries {
		at := path.Join(dir, e.Name())
		if e.IsDir() {
			if !w.sameDir(version, at, n) {
				return false
			}
			continue
		}
		f, ok := w.payload[at]
		if !ok || !e.Type().IsRegular() {
			return false
		}
		if data, err := w.read(path.Join(version, at), len(f.Data)); err != nil || !bytes.Equal(data, f.Data) {
			return false
		}
		*n++
	}
	return true
}

// version writes the payload to a new folder and returns its name. After an error, the name is set
// if the folder was created.
func (w *writer) version(ctx context.Context) (string, error) {
	name, err := w.newVersion()
	if err != nil {
		return "", err
	}
	v, err := w.sub(name)
	if err != nil {
		return name, fmt.Errorf("open the new version: %w", tree.Cause(err))
	}
	defer v.close()
	dirs := w.payload.dirs()
	for _, dir := range dirs {
		// Other users have no access before the files have their owners and modes.
		if err := v.mkdir(dir, 0o700); err != nil {
			return name, fmt.Errorf("folder %s: %w", Shown(dir), tree.Cause(err))
		}
	}
	for _, at := range slices.Sorted(maps.Keys(w.payload)) {
		if ctx.Err() != nil {
			return name, context.Cause(ctx)
		}
		if err := w.writeFile(v, at); err != nil {
			return name, fmt.Errorf("path %s: %w", Shown(at), tree.Cause(err))
		}
	}
	dirs = append(dirs, ".")
	for _, dir := range dirs {
		if err := v.chmod(dir, 0o755); err != nil {
			return name, fmt.Errorf("folder %s: %w", Shown(dir), tree.Cause(err))
		}
	}
	if w.options.Own != nil {
		if err := w.options.Own(w.root, name); err != nil {
			return name, fmt.Errorf("owner of the files: %w", err)
		}
	}
	return name, nil
}

func (w *writer) newVersion() (string, error) {
	stamp := time.Now().UTC().Format(versionFmt)
	var err error
	for range 100 {
		name := fmt.Sprintf("%s%d", stamp, rand.Uint32())
		if err = w.mkdir(name, 0o700); err == nil {
			return name, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return "", fmt.Errorf("make a new version: %w", tree.Cause(err))
}

func (w *writer) writeFile(version folder, at string) error {
	f := w.payload[at]
	out, err := version.create(at)
	if err != nil {
		return err
	}
	_, err = out.Write(f.Data)
	if err == nil && f.User != nil {
		err = out.Chown(int(*f.User), -1)
	}
	if err == nil {
		err = out.Chmod(f.Mode.Perm())
	}
	return errors.Join(err, out.Close())
}

// commit makes a version the current version. A present link is replaced by renaming a temporary link.
func (w *writer) commit(version string) error {
	if !w.isPresent(dataLink) {
		err := w.symlink(version, dataLink)
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s: %w", dataLink, tree.Cause(err))
		}
	}
	if w.isPresent(tempLink) {
		if err := w.removeAll(tempLink); err != nil {
			return fmt.Errorf("%s: %w", tempLink, tree.Cause(err))
		}
	}
	if err := w.symlink(version, tempLink); err != nil {
		return fmt.Errorf("%s: %w", tempLink, tree.Cause(err))
	}
	err := w.rename(tempLink, dataLink)
	if err != nil && w.isDir(dataLink) {
		// A folder of another program is in the way; it contains no version.
		if err = w.removeAll(dataLink); err == nil {
			err = w.rename(tempLink, dataLink)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dataLink, tree.Cause(err))
	}
	return nil
}

func (w *writer) isDir(name string) bool {
	info, err := w.lstat(name)
	return err == nil && info.IsDir()
}
