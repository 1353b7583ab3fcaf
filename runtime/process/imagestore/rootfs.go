// SPDX-License-Identifier: Apache-2.0

package imagestore

import (
	"fmt"
	"os"
	"path"
)

// builder makes the files of a tree in the store.
type builder struct {
	store *os.Root
	root  string   // path of the image's root in the store
	from  []string // paths of the layers' folders in the store, by number
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

// owned reports whether files get the owners that the image names. Without root, all files belong
// to the agent's user, who is the container's only user.
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
		return b.store.Link(path.Join(b.from[n.from], contentPath(n.content)), path.Join(b.root, at))
	}
	if err := dir.Mkdir(name, 0o700); err != nil {
		return err
	}
	child, err := dir.OpenRoot(name)
	if err != nil {
		return err
	}
	defer child.Close()
	return b.build(child, at, n)
}
