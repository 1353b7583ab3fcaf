// SPDX-License-Identifier: Apache-2.0

package imagestore

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// Bounds of the work of composing a tree.
const (
	maxLinks = 40         // symbolic links followed for one path, as in Linux
	maxSteps = 20_000_000 // elements of paths visited for one image
)

// fileTree is the file system of an image, in memory. Composing the tree from layers touches no
// file: all links are followed here, so that no link of a layer is ever followed on the host.
type fileTree struct {
	root  *node
	limit int // of nodes
	nodes int
	steps int // left
}

// node is a file, a folder or a symbolic link. Hard links are nodes with equal content.
type node struct {
	kind     kind // kindFolder, kindFile or kindSymlink
	mode     fs.FileMode
	uid, gid int
	link     string           // of a symbolic link
	layer    int              // the last layer that has the node
	from     int              // of a file: the layer with the content
	content  int              // of a file: the number of the content in that layer
	children map[string]*node // of a folder
}

// newTree returns the tree of an image without layers, which may grow to limit nodes.
func newTree(limit int) *fileTree {
	return &fileTree{root: &node{kind: kindFolder, mode: 0o755, children: map[string]*node{}, layer: -1}, limit: limit, steps: maxSteps}
}

// Errors of a layer that cannot be applied.
var (
	errTooMany    = errors.New("the image has too many files")
	errTooLong    = errors.New("the image's links take too long to follow")
	errLinks      = fmt.Errorf("more than %d symbolic links", maxLinks)
	errNotFolder  = errors.New("a file is in the place of a folder")
	errTooDeep    = fmt.Errorf("more than %d folders deep", maxDepth)
	errNoLinkFile = errors.New("the target of a hard link is not a file of the image")
)

// apply adds a layer on top of the tree. The number of each layer is greater than of the layer
// before. Whiteouts remove only nodes of earlier layers, in any order of entries.
func (t *fileTree) apply(layer int, entries []entry) error {
	for _, e := range entries {
		if err := t.add(layer, e); err != nil {
			return fmt.Errorf("path %.100q: %w", e.Path, err)
		}
	}
	return nil
}

// add adds an entry. The steps of a single entry are bounded by the bounds of paths and nodes.
func (t *fileTree) add(layer int, e entry) error {
	if t.steps < 0 {
		return errTooLong
	}
	switch e.Kind {
	case kindWhiteout:
		parent, base, err := t.parent(e.Path, lookOnly)
		if err != nil || parent == nil {
			return ignoreMissing(err)
		}
		if n := parent.children[base]; n != nil && t.prune(n, layer) {
			delete(parent.children, base)
		}
		return nil
	case kindOpaque:
		folder, err := t.folder(e.Path, lookOnly)
		if err != nil || folder == nil {
			return ignoreMissing(err)
		}
		t.empty(folder, layer)
		return nil
	case kindFolder:
		return t.addFolder(layer, e)
	}
	parent, base, err := t.parent(e.Path, layer)
	if err != nil {
		return err
	}
	n := &node{kind: e.Kind, mode: e.Mode, uid: e.UID, gid: e.GID, link: e.Link, layer: layer, from: layer, content: e.Content}
	if e.Kind == kindHardlink {
		target, err := t.linked(e.Link)
		if err != nil {
			return err
		}
		*n = *target
		n.layer = layer
	}
	return t.put(parent, base, n)
}

// ignoreMissing returns nil for a whiteout below a file, which removes nothing.
func ignoreMissing(err error) error {
	if errors.Is(err, errNotFolder) {
		return nil
	}
	return err
}

// addFolder makes a folder, or changes the mode of a folder. A folder replaces a link or a file.
func (t *fileTree) addFolder(layer int, e entry) error {
	n := t.root
	if e.Path != "" {
		parent, base, err := t.parent(e.Path, layer)
		if err != nil {
			return err
		}
		n = parent.children[base]
		if n == nil || n.kind != kindFolder {
			n = newFolder(layer)
			if err := t.put(parent, base, n); err != nil {
				return err
			}
		}
	}
	n.mode, n.uid, n.gid, n.layer = e.Mode, e.UID, e.GID, layer
	return nil
}

func newFolder(layer int) *node {
	return &node{kind: kindFolder, mode: 0o755, layer: layer, children: map[string]*node{}}
}

// put places n, and removes a node with the same name.
func (t *fileTree) put(parent *node, base string, n *node) error {
	if old := parent.children[base]; old != nil {
		t.forget(old)
	}
	if t.nodes++; t.nodes > t.limit {
		return errTooMany
	}
	parent.children[base] = n
	return nil
}

// forget takes the nodes at and below n off the count.
func (t *fileTree) forget(n *node) {
	t.nodes--
	t.steps--
	for _, c := range n.children {
		t.forget(c)
	}
}

// prune removes the nodes of layers before layer below n, and reports whether n itself has to be
// removed, too.
func (t *fileTree) prune(n *node, layer int) bool {
	t.steps--
	t.empty(n, layer)
	if n.layer >= layer || len(n.children) > 0 {
		return false
	}
	t.nodes--
	return true
}

func (t *fileTree) empty(folder *node, layer int) {
	maps.DeleteFunc(folder.children, func(_ string, c *node) bool { return t.prune(c, layer) })
}

// linked returns the file or symbolic link at the path of a hard link.
func (t *fileTree) linked(path string) (*node, error) {
	parent, base, err := t.parent(path, lookOnly)
	if err != nil {
		return nil, fmt.Errorf("hard link to %.100q: %w", path, err)
	}
	if parent != nil {
		if n := parent.children[base]; n != nil && n.kind != kindFolder {
			return n, nil
		}
	}
	return nil, fmt.Errorf("hard link to %.100q: %w", path, errNoLinkFile)
}

// lookOnly is the layer of a search that makes no missing folder.
const lookOnly = -1

// parent returns the folder of a path and the last element of the path.
func (t *fileTree) parent(path string, layer int) (*node, string, error) {
	i := strings.LastIndexByte(path, '/')
	folder, err := t.folder(path[:max(i, 0)], layer)
	return folder, path[i+1:], err
}

// folder returns the folder at a path as a process inside of the image finds it: the target of an
// absolute link is below the image's root, and ".." ends at the root. Missing folders belong to
// layer. A lookOnly search returns nil for a missing folder.
func (t *fileTree) folder(path string, layer int) (*node, error) {
	way := []*node{t.root}
	todo := strings.Split(path, "/")
	for links := 0; len(todo) > 0; {
		t.steps--
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			way = way[:max(len(way)-1, 1)]
			continue
		}
		next, err := t.child(way[len(way)-1], name, layer)
		switch {
		case next == nil || err != nil:
			return nil, err
		case next.kind == kindFile:
			return nil, errNotFolder
		case next.kind == kindFolder:
			way = append(way, next)
			if len(way) > maxDepth {
				return nil, errTooDeep
			}
			continue
		}
		if links++; links > maxLinks {
			return nil, errLinks
		}
		if strings.HasPrefix(next.link, "/") {
			way = way[:1]
		}
		todo = slices.Concat(strings.Split(next.link, "/"), todo)
		t.steps -= len(todo)
	}
	return way[len(way)-1], nil
}

// child returns the node with the name in folder, and makes a missing folder unless layer is
// lookOnly.
func (t *fileTree) child(folder *node, name string, layer int) (*node, error) {
	if n := folder.children[name]; n != nil || layer == lookOnly {
		return n, nil
	}
	if len(name) > maxElement {
		return nil, fmt.Errorf("an element of a link is longer than %d bytes", maxElement)
	}
	n := newFolder(layer)
	return n, t.put(folder, name, n)
}

// complete makes missing folders that a container needs: its working directory, and the folders in
// which every container has files of its own.
func (t *fileTree) complete(layer int, workingDir string) error {
	hadTmp := t.root.children["tmp"] != nil
	for _, folder := range []string{workingDir, "dev", "etc", "proc", "run", "sys", "tmp", "var/run"} {
		if _, err := t.folder(folder, layer); err != nil {
			return fmt.Errorf("folder %.100q: %w", folder, err)
		}
	}
	if !hadTmp {
		t.root.children["tmp"].mode = fs.ModePerm | fs.ModeSticky
	}
	return nil
}

// names returns the names in a folder, in order.
func (n *node) names() []string { return slices.Sorted(maps.Keys(n.children)) }
