// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// dir is an open folder.
type dir struct{ f *os.File }

func openRoot(root *os.Root, name string) (*dir, error) {
	r, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f, err := r.Open(".")
	if err != nil {
		return nil, err
	}
	return &dir{f}, nil
}

func (d *dir) close()  { d.f.Close() }
func (d *dir) fd() int { return int(d.f.Fd()) }

// names returns some of the names in d; none if d is empty.
func (d *dir) names() ([]string, error) {
	if _, err := d.f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	names, err := d.f.Readdirnames(batch)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

// sub opens a folder in d that is not a link and is on the same mount.
func (d *dir) sub(name string) (*dir, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := openBeneath(d.fd(), name, flags)
	switch err {
	case nil:
		return &dir{os.NewFile(uintptr(fd), name)}, nil
	case unix.EXDEV:
		return nil, ErrMount
	case unix.ENOTDIR, unix.ELOOP, unix.ENOENT:
		return nil, errNotDir
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: err}
}

// openBeneath opens name in the folder at. A link is an error, and a mount point returns EXDEV.
func openBeneath(at int, name string, flags int) (int, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat2(at, name, &unix.OpenHow{
			Flags:   uint64(flags),
			Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
		})
	})
	// Kernels before 5.6 do not have openat2, and some sandboxes refuse openat2.
	if err == unix.ENOSYS || err == unix.EPERM {
		return openCompared(at, name, flags)
	}
	return fd, err
}

// openCompared is openBeneath without openat2.
func openCompared(at int, name string, flags int) (int, error) {
	fd, err := retry(func() (int, error) { return unix.Openat(at, name, flags|unix.O_NOFOLLOW, 0) })
	if err != nil {
		return -1, err
	}
	same, err := sameMount(at, fd)
	if err == nil && !same {
		err = unix.EXDEV
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func sameMount(a, b int) (bool, error) {
	var sa, sb unix.Statx_t
	const flags, mask = unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW | unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID
	if err := errors.Join(unix.Statx(a, "", flags, mask, &sa), unix.Statx(b, "", flags, mask, &sb)); err != nil {
		return false, err
	}
	if sa.Mask&sb.Mask&unix.STATX_MNT_ID == 0 {
		return sa.Dev_major == sb.Dev_major && sa.Dev_minor == sb.Dev_minor, nil
	}
	return sa.Mnt_id == sb.Mnt_id, nil
}

// remove unlinks name: an empty folder if folder, else anything but a folder.
func (d *dir) remove(name string, folder bool) error {
	flags := 0
	if folder {
		flags = unix.AT_REMOVEDIR
	}
	_, err := retry(func() (int, error) { return 0, unix.Unlinkat(d.fd(), name, flags) })
	if err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

// unlock lets the owner into a folder in d.
func (d *dir) unlock(name string) error {
	fd, err := openBeneath(d.fd(), name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), unlockedMode)
}

func (d *dir) unlockSelf() error { return d.f.Chmod(unlockedMode) }

// stat returns the FileInfo of d, to identify the folder.
func (d *dir) stat() (fs.FileInfo, error) { return d.f.Stat() }

// reopen opens the present parent of the last folder of the way. The closed folder is at index above.
func (w *way) reopen(int) (*dir, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	fd, err := retry(func() (int, error) { return unix.Openat(w.last().dir.fd(), "..", flags, 0) })
	switch err {
	case nil:
		return &dir{os.NewFile(uintptr(fd), "..")}, nil
	case unix.ENOENT:
		return nil, ErrMoved // the last folder was removed
	}
	return nil, &fs.PathError{Op: "open", Path: "..", Err: err}
}

// visitFiles visits the files in d and calls folder with the names of the folders. Mounts are left out.
func (d *dir) visitFiles(visit func(*Entry) error, folder func(string)) error {
	if _, err := d.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for {
		names, err := d.f.Readdirnames(batch)
		slices.Sort(names)
		for _, n := range names {
			if err := d.visitFile(n, visit, folder); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (d *dir) visitFile(name string, visit func(*Entry) error, folder func(string)) error {
	fd, err := openBeneath(d.fd(), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err == unix.ELOOP { // a link: O_PATH opens links only without RESOLVE_NO_SYMLINKS
		fd, err = retry(func() (int, error) {
			return unix.Openat(d.fd(), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		})
	}
	switch err {
	case nil:
	case unix.ENOENT, unix.EXDEV:
		return nil
	default:
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		folder(name)
		return nil
	}
	return visit(entry(fd, name, &st))
}

// visitSelf visits d. Its descriptor is open for reading, so chown and chmod work.
func (d *dir) visitSelf(name string, visit func(*Entry) error) error {
	var st unix.Stat_t
	if err := unix.Fstat(d.fd(), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return visit(entry(d.fd(), name, &st))
}

// statBlock is the unit of Stat_t.Blocks in bytes, whatever the file system.
const statBlock = 512

// entry returns an Entry for the file of fd, even if the name means another file by now.
func entry(fd int, name string, st *unix.Stat_t) *Entry {
	return &Entry{
		Name: name, Mode: fileMode(st.Mode), UID: int(st.Uid), GID: int(st.Gid),
		Allocated: st.Blocks * statBlock, Inode: st.Ino, Links: uint64(st.Nlink),
		chown: func(uid, gid int) error {
			if err := unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return &fs.PathError{Op: "chown", Path: name, Err: err}
			}
			return nil
		},
		chmod: func(m fs.FileMode) error {
			return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), m)
		},
	}
}

func fileMode(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFREG:
	default:
		mode |= fs.ModeIrregular
	}
	for bit, is := range map[uint32]fs.FileMode{unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky} {
		if m&bit != 0 {
			mode |= is
		}
	}
	return mode
}

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR && err != unix.EAGAIN {
			return n, err
		}
	}
}
