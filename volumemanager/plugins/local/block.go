// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/volumedir"
)

// MapBlock creates a link to the device.
func (p *Plugin) MapBlock(_ context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	out, err := mapBlock(m)
	return out, volumedir.Named(m.Spec.InnerName(), err)
}

func mapBlock(m volumemanager.Mount) (volumemanager.Mounted, error) {
	path, err := pathOf(m.Spec)
	if err != nil {
		return volumemanager.Mounted{}, err
	}
	block, err := isBlockDevice(path)
	if err != nil {
		return volumemanager.Mounted{}, err
	}
	if !block {
		return volumemanager.Mounted{}, volumemanager.Terminal(fmt.Errorf("path %s is no block device", path))
	}
	if err := m.Check(); err != nil {
		return volumemanager.Mounted{}, err
	}
	root, err := os.OpenRoot(m.Root)
	if err != nil {
		return volumemanager.Mounted{}, err
	}
	defer root.Close()
	name, err := filepath.Rel(m.Root, m.BlockPath())
	if err != nil {
		return volumemanager.Mounted{}, err
	}
	if err := root.MkdirAll(filepath.Dir(name), dirMode); err != nil {
		return volumemanager.Mounted{}, tree.Cause(err)
	}
	out := volumemanager.Mounted{Path: path, ReadOnly: m.Spec.ReadOnly}
	if have, err := root.Readlink(name); err == nil && have == path {
		return out, nil
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return volumemanager.Mounted{}, tree.Cause(err)
	}
	return out, tree.Cause(root.Symlink(path, name))
}

// UnmapBlock removes the link.
func (p *Plugin) UnmapBlock(_ context.Context, u volumemanager.Unmount) error {
	err := u.Check()
	if err == nil {
		err = os.Remove(u.BlockPath())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return volumedir.Named(u.Inner, tree.Cause(err))
}
