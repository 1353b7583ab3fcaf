// SPDX-License-Identifier: Apache-2.0

package imagestore

import (
	"fmt"
	"os"
	"path"

	"github.com/keelson-dev/keelson/runtime/process"
)

// builder makes the files of a tree in the store.
type builder struct {
	store *os.Root
	root  string   // path of the image's root in the store
	from  []string // paths of the layers' folders in the store, by number

	owners []process.Owner // of files that do not belong to root in the image
	bytes  int64           // of their content
}

// Bounds of the files that get another owner in each container. Each is copied then.
const (
	maxOwners = 1000
	maxOwned  = 64 << 20 // bytes
)

// note notes the owner of a file or folder.
func (b *builder) note(dir *os.Root, name, at string, n *node) error {
	if owned() || n.uid == 0 && n.gid == 0 || len(b.owners) > maxOwners {
		return nil
	}
	info, err := dir.Lstat(name)
	if err == nil && n.kind == kindFile {
		b.bytes += info.Size()
	}
	b.owners = append(b.owners, process.Owner{Path: at, UID: uint32(n.uid), GID: uint32(n.gid)})
	return err
}

// noted returns the noted owners, none if they are too many.
func (b *builder) noted() []process.Owner {
	if len(b.owners) > maxOwners || b.bytes > maxOwned {
		return nil
	}
	return b.owners
}

// build makes the content of a folder of the tree. path is the folder's path in the image, and dir
// is the folder, which is empty. Files are hard links to the contents of layers, so images with
// equal layers share disk space. The parents of every path were made by build, and are no links.
func (b *builder) build(dir *os.Root, at string, folder *node) error {
	for _, name := range folder.names() {
		n := folder.children[name]
		if err := b.make(dir, name, path.Join(at, name), n); err != nil {
			return fmt.Errorf("path %.100q: %w", path.Join(at, name), err)
		}
	}
	if owned() {
		if err := dir.Chown(".", folder.uid, folder.gid); err != nil {
			return err
		}
	}
	return dir.Chmod(".", folder.mode)
}

// owned reports whether files get the owners that the image names. Without root, all files of the store belong
// to the agent's user.
func owned() bool { return os.Geteuid() == 0 }

func (b *builder) make(dir *os.Root, name, at string, n *node) error {
	switch n.kind {
	case kindSymlink:
		err := dir.Symlink(n.link, name)
		if err == nil && owned() {
			err = dir.Lchown(name, n.uid, n.gid)
		}
		return err
	case kindFile:
		err := b.store.Link(path.Join(b.from[n.from], contentPath(n.content)), path.Join(b.root, at))
		if err == nil {
			err = b.note(dir, name, at, n)
		}
		return err
	}
	if err := dir.Mkdir(name, 0o700); err != nil {
		return err
	}
	child, err := dir.OpenRoot(name)
	if err != nil {
		return err
	}
	defer child.Close()
	if err := b.note(dir, name, at, n); err != nil {
		return err
	}
	return b.build(child, at, n)
}
