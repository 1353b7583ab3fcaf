// SPDX-License-Identifier: Apache-2.0

package powercut

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// ID is a file, a link or a folder. Unlike inode numbers, an ID is never reused.
type ID int

// Root is the top folder.
const Root ID = 0

// Kind is the kind of an operation.
type Kind int

// The kinds of operations.
const (
	// Make creates File with Mode and the name Name in Dir. Data is the target of a link.
	Make Kind = iota
	// Link gives File the further name Name in Dir.
	Link
	// Unlink removes the name Name in Dir from File, or removes an empty folder.
	Unlink
	// Rename moves File from Name in Dir to NewName in NewDir, and replaces an existing file with
	// the new name.
	Rename
	// Write makes Data the content of File.
	Write
	// Chmod gives File the permissions of Mode at once.
	Chmod
	// Sync writes the content of File, or the names of a folder, to the disk, and the path of File: its last name
	// and those of the folders above, as on ext4, xfs and btrfs.
	Sync
)

// Op is one operation on the disk.
type Op struct {
	Kind          Kind
	File          ID
	Dir, NewDir   ID
	Name, NewName string
	Mode          fs.FileMode
	Data          []byte
}

// Loss is the loss of unsynced changes by a power cut.
type Loss int

// The losses.
const (
	// LoseNothing: all changes were made, as after kill -9.
	LoseNothing Loss = iota
	// LoseTail: all folder changes after a random operation are missing.
	LoseTail
	// LoseAny: for each folder, all changes after a random operation are missing.
	LoseAny
	// Losses is how many there are.
	Losses
)

// Node is a file, a link or a folder in an image.
type Node struct {
	Mode fs.FileMode
	// Data is the content of a file or the target of a link.
	Data []byte
	// Entries are the children of a folder.
	Entries map[string]*Node
}

// Image returns the content of the disk after a power cut following the last of ops.
func Image(ops []Op, loss Loss, random *rand.Rand) *Node {
	d := disk{
		ops: ops, synced: map[ID]int{}, placed: map[ID]int{},
		files: map[ID]*file{Root: {mode: fs.ModeDir | 0o755}}, names: map[ID]map[string]ID{},
	}
	folders := map[ID]ID{}
	for i, op := range ops {
		switch op.Kind {
		case Make, Link:
			folders[op.File] = op.Dir
		case Rename:
			folders[op.File] = op.NewDir
		case Sync:
			d.synced[op.File] = i
			for id, ok := op.File, true; ok; id, ok = folders[id] {
				d.placed[id] = i
			}
		}
	}
	survives := d.survivors(loss, random)
	for i, op := range ops {
		d.apply(op, survives(i, op))
	}
	return d.node(Root, loss, random)
}

type disk struct {
	ops []Op
	// synced is when a file or folder was synced for the last time.
	synced map[ID]int
	// placed is when the path of a file or folder was synced for the last time.
	placed map[ID]int
	files  map[ID]*file
	names  map[ID]map[string]ID
}

type file struct {
	mode   fs.FileMode
	target []byte
	// safe is the synced content, later are the contents written since.
	safe  []byte
	later [][]byte
}

// survivors selects the folder changes on the disk.
func (d *disk) survivors(loss Loss, random *rand.Rand) func(int, Op) bool {
	last := -1
	lastOf := map[ID]int{}
	for i, op := range d.ops {
		if op.inFolder() && d.durable(i, op) {
			last = i
			lastOf[op.Dir], lastOf[op.NewDir] = i, i
		}
	}
	cut := func(last int) int { return last + 1 + random.IntN(len(d.ops)-last) }
	switch loss {
	case LoseNothing:
		return func(int, Op) bool { return true }
	case LoseTail:
		all := cut(last)
		return func(i int, _ Op) bool { return i < all }
	}
	cuts := map[ID]int{}
	of := func(dir ID) int {
		if _, ok := cuts[dir]; !ok {
			last, ok := lastOf[dir]
			if !ok {
				last = -1
			}
			cuts[dir] = cut(last)
		}
		return cuts[dir]
	}
	return func(i int, op Op) bool {
		return d.durable(i, op) || i < of(op.Dir) && (op.Kind != Rename || i < of(op.NewDir))
	}
}

// inFolder reports whether op changes the names in a folder.
func (op Op) inFolder() bool { return op.Kind <= Rename }

// durable reports whether a change of a folder was synced.
func (d *disk) durable(i int, op Op) bool {
	return d.synced[op.Dir] > i || op.Kind == Rename && d.synced[op.NewDir] > i || op.Kind != Unlink && d.placed[op.File] > i
}

func (d *disk) apply(op Op, survives bool) {
	switch op.Kind {
	case Make:
		d.files[op.File] = &file{mode: op.Mode, target: op.Data}
	case Write:
		if f := d.files[op.File]; f != nil {
			f.later = append(f.later, op.Data)
		}
	case Chmod:
		if f := d.files[op.File]; f != nil {
			f.mode = f.mode&fs.ModeType | op.Mode.Perm()
		}
	case Sync:
		if f := d.files[op.File]; f != nil && len(f.later) > 0 {
			f.safe, f.later = f.later[len(f.later)-1], nil
		}
	}
	if !survives {
		return
	}
	switch op.Kind {
	case Make, Link:
		d.folder(op.Dir)[op.Name] = op.File
	case Unlink:
		delete(d.folder(op.Dir), op.Name)
	case Rename:
		if d.folder(op.Dir)[op.Name] == op.File {
			delete(d.folder(op.Dir), op.Name)
		}
		d.folder(op.NewDir)[op.NewName] = op.File
	}
}

func (d *disk) folder(dir ID) map[string]ID {
	if d.names[dir] == nil {
		d.names[dir] = map[string]ID{}
	}
	return d.names[dir]
}

func (d *disk) node(id ID, loss Loss, random *rand.Rand) *Node {
	f := d.files[id]
	n := &Node{Mode: f.mode}
	switch {
	case f.mode.IsDir():
		n.Entries = map[string]*Node{}
		for _, name := range slices.Sorted(maps.Keys(d.names[id])) {
			if child := d.names[id][name]; d.files[child] != nil {
				n.Entries[name] = d.node(child, loss, random)
			}
		}
	case f.mode.IsRegular():
		n.Data = f.content(loss, random)
	default:
		n.Data = f.target
	}
	return n
}

// content selects the content of a file on the disk.
func (f *file) content(loss Loss, random *rand.Rand) []byte {
	if len(f.later) == 0 {
		return f.safe
	}
	if loss == LoseNothing {
		return f.later[len(f.later)-1]
	}
	n := random.IntN(len(f.later) + 1)
	if n == 0 {
		return f.safe
	}
	data := f.later[n-1]
	switch random.IntN(3) {
	case 0:
		return data[:random.IntN(len(data)+1)]
	case 1:
		return bytes.Repeat([]byte{0}, len(data))
	}
	return data
}

// Store creates the content of the folder n in dir, which must be an empty folder.
func (n *Node) Store(dir string) error {
	var errs []error
	for name, e := range n.Entries {
		path := filepath.Join(dir, name)
		switch {
		case e.Mode.IsDir():
			if err := os.Mkdir(path, 0o700); err != nil {
				errs = append(errs, err)
				continue
			}
			errs = append(errs, e.Store(path), os.Chmod(path, e.Mode.Perm()))
		case e.Mode.IsRegular():
			errs = append(errs, os.WriteFile(path, e.Data, 0o600), os.Chmod(path, e.Mode.Perm()))
		case e.Mode&fs.ModeSymlink != 0:
			errs = append(errs, os.Symlink(string(e.Data), path))
		}
		// Programs create their sockets and pipes again.
	}
	return errors.Join(errs...)
}
