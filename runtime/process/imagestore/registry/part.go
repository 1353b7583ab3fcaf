// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// Bounds of the parts without a download under way.
const (
	maxPartAge  = 24 * time.Hour
	maxPartSize = 1 << 30 // bytes of all parts; the newest stay

	// room is how many times a blob has to fit on the disk for a part: once for the part, and the rest
	// for the files of the layer.
	room = 4
)

const partSuffix = ".part"

// parts is the folder of unfinished downloads, "" for none. A part is the file DIGEST.part with the
// first bytes of a blob. It is an aid: a fault of the disk costs the part, and not the pull. The
// digest of the whole blob is checked, so the content of a part need not be trusted.
type parts string

// part is an open part, locked against other downloads of the blob. A part without a file keeps
// nothing.
type part struct {
	dir        *os.Root
	name       string
	file, lock *os.File
	size       int64 // bytes of the blob in the file
}

// open opens the part of a blob of size bytes. The part has no file if another download has the part,
// or if the disk may be too small for the part and the layer.
func (dir parts) open(digest string, size int64) *part {
	none := &part{}
	if dir == "" || os.MkdirAll(string(dir), 0o700) != nil {
		return none
	}
	root, err := os.OpenRoot(string(dir))
	if err != nil {
		return none
	}
	p := &part{dir: root, name: digest + partSuffix}
	if p.file, err = root.OpenFile(p.name, os.O_RDWR|os.O_CREATE, 0o600); err == nil {
		p.lock, err = record.LockFolder(root, p.name)
	}
	if err == nil {
		var mine, named fs.FileInfo
		if mine, err = p.file.Stat(); err == nil {
			named, err = root.Lstat(p.name)
		}
		if err == nil && os.SameFile(mine, named) && mine.Mode().IsRegular() {
			if p.size = mine.Size(); p.size > size || free(p.file) < room*(size-p.size) {
				p.drop()
			}
			return p
		}
	}
	p.release()
	return none
}

// free returns the free bytes of the file system of a file, 0 if unknown.
func free(f *os.File) int64 {
	var s unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &s) != nil {
		return 0
	}
	return int64(s.Bavail) * int64(s.Bsize)
}

// read returns the number of bytes read at an offset, 0 after an error.
func (p *part) read(to []byte, at int64) int {
	n, _ := p.file.ReadAt(to[:min(int64(len(to)), p.size-at)], at)
	return n
}

// write adds bytes at the end. After an error, as of a full disk, the part is given up.
func (p *part) write(b []byte, at int64) {
	if p.file == nil || at != p.size {
		return
	}
	n, err := p.file.WriteAt(b, at)
	p.size += int64(n)
	if err != nil {
		p.drop()
	}
}

// drop removes the file. Its space is free at once.
func (p *part) drop() {
	if p.file != nil {
		_ = p.dir.Remove(p.name)
	}
	p.release()
}

// close keeps or removes the file.
func (p *part) close(keep bool) {
	if !keep || p.size == 0 {
		p.drop()
		return
	}
	p.release()
}

func (p *part) release() {
	for _, f := range []*os.File{p.file, p.lock} {
		if f != nil {
			_ = f.Close()
		}
	}
	if p.dir != nil {
		_ = p.dir.Close()
	}
	*p = part{}
}

// sweep removes old parts, and the oldest beyond maxPartSize. Parts of downloads under way stay.
func (dir parts) sweep() {
	root, err := os.OpenRoot(string(dir))
	if err != nil {
		return
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return
	}
	var found []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), partSuffix) {
			found = append(found, info)
		}
	}
	slices.SortFunc(found, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	total := int64(0)
	for _, info := range found {
		total += info.Size()
		if total <= maxPartSize && time.Since(info.ModTime()) < maxPartAge {
			continue
		}
		if lock, err := record.LockFolder(root, info.Name()); err == nil {
			_ = root.Remove(info.Name())
			_ = lock.Close()
			total -= info.Size()
		}
	}
}
