// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package powercut_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/powercut"
)

// recorder logs the changes of system calls below a folder.
type recorder struct {
	root   string
	device uint64

	mu  sync.Mutex
	ops []powercut.Op
	// ids are the files by their present inode.
	ids  map[uint64]powercut.ID
	next powercut.ID
	// lost are changes without an equivalent in the log. lost must stay empty.
	lost []string
}

func newRecorder(root string) (*recorder, error) {
	info, err := os.Lstat(root)
	if err != nil {
		return nil, err
	}
	st := info.Sys().(*syscall.Stat_t)
	return &recorder{root: root, device: uint64(st.Dev), ids: map[uint64]powercut.ID{st.Ino: powercut.Root}, next: 1}, nil
}

// position is how many operations are in the log.
func (r *recorder) position() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ops)
}

func (r *recorder) log() []powercut.Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ops)
}

// pending is a call of interest that a thread is in: on paths, or on the open file fd.
type pending struct {
	call
	path, to string
	fd       int64
	// file is the file with the name before the call; existed reports whether such a file existed.
	file    powercut.ID
	existed bool
	// foreign reports whether the file is on another disk.
	foreign bool
}

// seen returns a path as seen by the thread of a call, with its mounts.
func (c call) seen(path string) string { return fmt.Sprintf("/proc/%d/root%s", c.thread, path) }

// begin records the facts known only before a call. ok reports whether the call is relevant.
func (r *recorder) begin(c call) (p pending, ok bool) {
	p = pending{call: c, fd: -1}
	switch c.nr {
	case unix.SYS_OPENAT:
		p.path = c.path(0, 1)
		ok = c.args[2]&(unix.O_CREAT|unix.O_TRUNC) != 0
	case unix.SYS_OPENAT2: // Go and this module do not use openat2 to create files
		return p, false
	case unix.SYS_MKDIRAT, unix.SYS_UNLINKAT, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_MKNODAT:
		p.path, ok = c.path(0, 1), true
	case unix.SYS_SYMLINKAT:
		p.path, ok = c.path(1, 2), true
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT:
		p.path, p.to, ok = c.path(0, 1), c.path(2, 3), true
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE,
		unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNC_FILE_RANGE, unix.SYS_FCHMOD:
		p.fd, ok = int64(int32(c.args[0])), true
	case unix.SYS_SENDFILE:
		p.fd, ok = int64(int32(c.args[0])), true
	case unix.SYS_COPY_FILE_RANGE:
		p.fd, ok = int64(int32(c.args[2])), true
	default:
		return old(r, &p)
	}
	return r.look(p, ok)
}

// look completes p, if it is about a file below the root.
func (r *recorder) look(p pending, ok bool) (pending, bool) {
	switch {
	case !ok:
		return p, false
	case p.fd >= 0:
		return p, true
	case !r.below(p.path) && !r.below(p.to):
		return p, false
	}
	p.file, p.existed = r.idOf(p, p.path)
	info, err := os.Lstat(p.seen(p.path))
	p.foreign = err == nil && uint64(info.Sys().(*syscall.Stat_t).Dev) != r.device
	return p, true
}

func (r *recorder) below(path string) bool { return strings.HasPrefix(path, r.root+"/") }

// idOf returns the file that has a name now, for the thread of p. Links are not followed. Mounts below the root are not
// on its disk.
func (r *recorder) idOf(p pending, path string) (powercut.ID, bool) {
	info, err := os.Lstat(p.seen(path))
	if err != nil {
		return 0, false
	}
	return r.idOfInfo(info)
}

func (r *recorder) idOfInfo(info fs.FileInfo) (powercut.ID, bool) {
	st := info.Sys().(*syscall.Stat_t)
	id, ok := r.ids[st.Ino]
	return id, ok && uint64(st.Dev) == r.device
}

// end logs the changes of a successful call.
func (r *recorder) end(p pending, result int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch p.nr {
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE,
		unix.SYS_SENDFILE, unix.SYS_COPY_FILE_RANGE:
		r.written(p.call.file(p.fd))
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_FCHMOD:
		r.onFile(p, p.call.file(p.fd))
	case unix.SYS_OPENAT:
		switch {
		case !p.existed:
			r.made(p, p.call.file(result), nil)
		case p.args[2]&unix.O_TRUNC != 0:
			r.written(p.call.file(result))
		}
	case unix.SYS_MKDIRAT, unix.SYS_MKNODAT, sysMkdir:
		r.made(p, "", nil)
	case unix.SYS_SYMLINKAT, sysSymlink:
		target, _ := os.Readlink(p.seen(p.path))
		r.made(p, "", []byte(target))
	case unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2:
		r.onFile(p, p.seen(p.path))
	default:
		r.named(p)
	}
}

// made logs a new file, open at the path as, and its content unless empty.
func (r *recorder) made(p pending, as string, target []byte) {
	stat := os.Stat
	if as == "" {
		as, stat = p.seen(p.path), os.Lstat
	}
	info, err := stat(as)
	if err == nil && uint64(info.Sys().(*syscall.Stat_t).Dev) != r.device {
		return
	}
	dir, ok := r.idOf(p, filepath.Dir(p.path))
	if !ok || err != nil {
		r.lost = append(r.lost, "make "+p.path)
		return
	}
	id := r.next
	r.next++
	r.ids[info.Sys().(*syscall.Stat_t).Ino] = id
	r.ops = append(r.ops, powercut.Op{Kind: powercut.Make, File: id, Dir: dir, Name: filepath.Base(p.path), Mode: info.Mode(), Data: target})
}

// maxContent is how much of a file is looked at, in bytes. Larger ones are logs.
const maxContent = 1 << 20

// written logs the content of an open file.
func (r *recorder) written(as string) {
	info, err := os.Stat(as)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxContent {
		return
	}
	id, ok := r.idOfInfo(info)
	if !ok {
		return // elsewhere
	}
	data, err := os.ReadFile(as)
	if err != nil {
		r.lost = append(r.lost, "write: "+err.Error())
		return
	}
	r.ops = append(r.ops, powercut.Op{Kind: powercut.Write, File: id, Data: data})
}

// onFile logs a change of a whole file.
func (r *recorder) onFile(p pending, as string) {
	info, err := os.Stat(as)
	if err != nil {
		return
	}
	id, ok := r.idOfInfo(info)
	if !ok {
		return
	}
	op := powercut.Op{Kind: powercut.Chmod, File: id, Mode: info.Mode()}
	if p.nr == unix.SYS_FSYNC || p.nr == unix.SYS_FDATASYNC {
		op.Kind = powercut.Sync
	}
	r.ops = append(r.ops, op)
}

// named logs a change of names.
func (r *recorder) named(p pending) {
	op := powercut.Op{File: p.file, Name: filepath.Base(p.path), NewName: filepath.Base(p.to)}
	var here, there bool
	op.Dir, here = r.idOf(p, filepath.Dir(p.path))
	if p.to != "" {
		op.NewDir, there = r.idOf(p, filepath.Dir(p.to))
	}
	switch p.nr {
	case unix.SYS_UNLINKAT, sysUnlink, sysRmdir:
		op.Kind, there = powercut.Unlink, true
	case unix.SYS_LINKAT, sysLink:
		op.Kind, op.Dir, op.Name, here = powercut.Link, op.NewDir, op.NewName, true
	default:
		op.Kind = powercut.Rename
	}
	if p.foreign {
		return
	}
	if !p.existed || !here || !there {
		r.lost = append(r.lost, "rename "+p.path+" "+p.to)
		return
	}
	r.ops = append(r.ops, op)
}
