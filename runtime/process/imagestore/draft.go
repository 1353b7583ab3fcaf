// SPDX-License-Identifier: Apache-2.0

package imagestore

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// draftPrefix begins the names of folders that are being made or being removed.
const draftPrefix = ".draft-"

// draft is a folder that is being made. The folder is locked until its end, so an unlocked draft
// comes from a killed agent, and may be removed.
type draft struct {
	parent *os.Root
	name   string // in parent
	dir    *os.Root
	lock   *os.File
}

func draftName() string { return draftPrefix + strconv.FormatUint(rand.Uint64(), 36) }

// newDraft makes an empty folder in parent. The caller publishes or discards the draft.
func newDraft(parent *os.Root) (*draft, error) {
	d := &draft{parent: parent, name: draftName()}
	if err := parent.Mkdir(d.name, 0o700); err != nil {
		return nil, err
	}
	var err error
	if d.lock, err = record.LockFolder(parent, d.name); err == nil {
		// An error here, too, if another agent removed the draft before the lock.
		d.dir, err = parent.OpenRoot(d.name)
	}
	if err != nil {
		return nil, errors.Join(err, d.discard())
	}
	return d, nil
}

// publish gives the folder its name. After a power cut the folder is there with all its content, or
// not at all.
func (d *draft) publish(name string) error {
	if err := syncAll(d.lock); err != nil {
		return err
	}
	if err := d.parent.Rename(d.name, name); err != nil {
		return err
	}
	d.name = ""
	folder, err := d.parent.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// discard ends a draft. The folder is removed unless it was published.
func (d *draft) discard() error {
	var err error
	if d.name != "" {
		err = tree.RemoveAll(d.parent, d.name)
	}
	if d.dir != nil {
		_ = d.dir.Close()
	}
	if d.lock != nil {
		_ = d.lock.Close()
	}
	return err
}

// hide renames a folder of parent to a draft, so that no later call finds the folder. The caller
// removes the draft. A missing folder has no draft: "".
func hide(parent *os.Root, name string) (string, error) {
	hidden := draftName()
	err := parent.Rename(name, hidden)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return hidden, err
}

// discard removes a folder of parent, at once for every other call. A missing folder is no error.
func discard(parent *os.Root, name string) error {
	hidden, err := hide(parent, name)
	if err != nil || hidden == "" {
		return err
	}
	return tree.RemoveAll(parent, hidden)
}

// sweep removes the drafts of killed agents from parent.
func sweep(parent *os.Root) error {
	names, err := list(parent)
	errs := []error{err}
	for _, name := range names {
		if !strings.HasPrefix(name, draftPrefix) {
			continue
		}
		lock, err := record.LockFolder(parent, name)
		if err != nil {
			if !errors.Is(err, record.ErrLocked) && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
			continue
		}
		errs = append(errs, tree.RemoveAll(parent, name), lock.Close())
	}
	return errors.Join(errs...)
}

// list returns the names in a folder.
func list(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}
