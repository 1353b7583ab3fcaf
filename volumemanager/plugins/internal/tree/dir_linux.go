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

// names returns some of the names in d, none when it is empty.
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

// sub opens a folder in d that is no link and on the same mount.
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

// openBeneath opens name in the folder at, if it is no link and nothing is mounted on it; EXDEV if there is.
func openBeneath(at int, name string, flags int) (int, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat2(at, name, &unix.OpenHow{
			Flags:   uint64(flags),
			Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
		})
	})
	// Kernels before 5.6 do not know it, and some sandboxes refuse it.
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

func (d *dir) rename(name string, to *dir, as string) error {
	return unix.Renameat2(d.fd(), name, to.fd(), as, unix.RENAME_NOREPLACE)
}

func (d *dir) walk(visit func(*Entry) error, as string) error {
	if _, err := d.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for {
		names, err := d.f.Readdirnames(batch)
		slices.Sort(names)
		for _, n := range names {
			if err := d.walkEntry(n, visit); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	// The descriptor is open for reading, chown and chmod work on it.
	return visitFD(d.fd(), as, visit)
}

func (d *dir) walkEntry(name string, visit func(*Entry) error) error {
	child, err := d.sub(name)
	switch {
	case err == nil:
		defer child.close()
		return child.walk(visit, name)
	case errors.Is(err, ErrMount):
		return nil
	case !errors.Is(err, errNotDir):
		return err
	}
	fd, err := openBeneath(d.fd(), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	switch err {
	case nil:
		defer unix.Close(fd)
		return visitFD(fd, name, visit)
	case unix.ELOOP: // a link, which O_PATH opens only where no resolution is forbidden
		return d.visitLink(name, visit)
	case unix.ENOENT, unix.EXDEV:
		return nil
	}
	return &fs.PathError{Op: "open", Path: name, Err: err}
}

func (d *dir) visitLink(name string, visit func(*Entry) error) error {
	fd, err := retry(func() (int, error) {
		return unix.Openat(d.fd(), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	return visitFD(fd, name, visit)
}

// visitFD shows visit the very file that fd holds, whatever its name means by now.
func visitFD(fd int, name string, visit func(*Entry) error) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return visit(&Entry{
		Name: name, Mode: fileMode(st.Mode), UID: int(st.Uid), GID: int(st.Gid),
		chown: func(uid, gid int) error {
			if err := unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return &fs.PathError{Op: "chown", Path: name, Err: err}
			}
			return nil
		},
		chmod: func(m fs.FileMode) error {
			return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), m)
		},
	})
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
