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

	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/tree"
)

const (
	dataLink   = "..data"
	tempLink   = "..data_tmp"
	versionFmt = "..2006_01_02_15_04_05."
)

// Options of one Write. The zero value is valid.
type Options struct {
	// Own gives a new version its owners, before it is committed: root is the volume, version the folder in it.
	// Defaults to the agent's user and each File's own.
	Own func(root *os.Root, version string) error
	// Keep tells which old versions are still mounted somewhere and must stay. Defaults to none.
	Keep func(version string) bool
	// Fresh says that there is nothing in the folder, so that nobody has to look. Defaults to false.
	Fresh bool
	// Durability says whether the files must survive a loss of power. Defaults to Volatile.
	Durability Durability
}

// Durability is what is left after a loss of power.
type Durability int

// The two of them.
const (
	// Volatile is right on a tmpfs, where nothing is left.
	Volatile Durability = iota
	// Durable syncs a version to the disk before it is committed: after a loss of power no file is cut short.
	Durable
)

// Write makes the payload what is in the folder of a volume, which must exist, and reports whether it changed. If
// files, contents and paths are what is there already, no version is written; what a crash or somebody else left
// behind is mended in any case. If it fails before the commit, what was there is untouched.
//
// The caller keeps calls for one volume apart. Errors name paths, never contents.
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
				// What remains of it is swept by the next Write.
				_ = d.removeAll(version)
			}
			return false, err
		}
		current, changed = version, true
	}
	return changed, errors.Join(w.link(), w.sweep(current))
}

// Current returns the name of the version that is in force; "" if there is none.
func Current(root *os.Root) string {
	w := writer{folder: disk{root}}
	return w.current()
}

type writer struct {
	folder
	root    *os.Root
	payload Payload
	options Options
	// present is what was in the folder of the volume at first.
	present map[string]fs.FileMode
}

// look finds out what there is, so that a new volume is not asked about each single name.
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

// isVersion reports whether a name is one that version makes.
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

// same reports whether a version holds just the payload.
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

// version writes the payload to a new folder and returns its name, also when it fails after the folder was made.
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
		// Nobody else looks in before the files have their owners and modes.
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
	return name, w.sync(v, dirs)
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
	if err == nil && w.options.Durability == Durable {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// sync makes the names of a version durable, and its own.
func (w *writer) sync(version folder, dirs []string) error {
	if w.options.Durability != Durable {
		return nil
	}
	for _, dir := range dirs {
		if err := version.syncDir(dir); err != nil {
			return fmt.Errorf("sync: %w", tree.Cause(err))
		}
	}
	if err := w.syncDir("."); err != nil {
		return fmt.Errorf("sync: %w", tree.Cause(err))
	}
	return nil
}

// commit makes a version the current one.
func (w *writer) commit(version string) error {
	if err := w.point(version); err != nil {
		return err
	}
	if w.options.Durability == Durable {
		// Committed all the same: a loss of power brings back the old version, which is complete.
		_ = w.syncDir(".")
	}
	return nil
}

// point makes the link to the current version: by itself if there is none, else under another name first, which then
// replaces it.
func (w *writer) point(version string) error {
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
		// Somebody put a folder there; no version can be in it.
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
