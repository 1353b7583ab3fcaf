// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"errors"
	"fmt"
	"io/fs"
)

// emptying is the progress of emptying a folder.
type emptying struct {
	// names were read from the folder and not tried yet.
	names []string
	// begun reports whether names were read before; removed is the number of removed names.
	begun   bool
	removed int
	// failed is the first error with the last batch of names.
	failed error
	// unlocked reports whether the folder's mode was changed to unlockedMode.
	unlocked bool
}

// empty removes the content of the folder base of parent. It continues after an error and returns the first error.
func empty(parent *dir, base string) error {
	top, err := parent.subUnlocked(base)
	if err != nil {
		return err
	}
	way, err := newWay(top, base)
	if err != nil {
		return err
	}
	defer way.close()
	for {
		f := way.last()
		done, err := f.more()
		if !done {
			err := removeNext(way)
			if err != nil {
				return err
			}
			continue
		}
		if len(way.frames) == 1 {
			return err
		}
		name := f.name
		if err := way.openParent(); err != nil {
			return fmt.Errorf("%q: %w", way.text(""), err)
		}
		way.leave()
		above := way.last()
		if err == nil {
			err = above.dir.remove(name, true)
		}
		above.note(err)
	}
}

// more reads further names if none are left. It reports whether the folder is done: empty, or with an error.
func (f *frame) more() (done bool, err error) {
	if len(f.names) > 0 {
		return false, nil
	}
	if f.begun && f.removed == 0 {
		// An agent without root finds folders owned by its user without write permission.
		if f.unlocked || !errors.Is(f.failed, fs.ErrPermission) || f.dir.unlockSelf() != nil {
			return true, f.failed
		}
		f.unlocked = true
	}
	f.begun, f.removed, f.failed = true, 0, nil
	f.names, err = f.dir.names()
	return err != nil || len(f.names) == 0, err
}

// removeNext removes the next name of the last folder, or enters the name if it is a folder.
func removeNext(way *way) error {
	f := way.last()
	name := f.names[0]
	f.names = f.names[1:]
	err := f.dir.remove(name, false)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		f.note(nil)
		return nil
	}
	child, serr := f.dir.subUnlocked(name)
	switch {
	case errors.Is(serr, errNotDir):
		f.note(fmt.Errorf("%q: %w", way.text(name), Cause(err)))
		return nil
	case serr != nil:
		f.note(fmt.Errorf("%q: %w", way.text(name), serr))
		return nil
	}
	return way.enter(child, name)
}

// note records the result for one name.
func (f *frame) note(err error) {
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		f.removed++
	case f.failed == nil:
		f.failed = err
	}
}

// subUnlocked opens a folder in d like sub, and changes its mode if necessary.
func (d *dir) subUnlocked(name string) (*dir, error) {
	child, err := d.sub(name)
	if errors.Is(err, fs.ErrPermission) && d.unlock(name) == nil {
		child, err = d.sub(name)
	}
	return child, err
}
