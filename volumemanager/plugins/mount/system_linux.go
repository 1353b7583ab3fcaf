// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// flags maps the names in fstab to mount flags.
var flags = map[string]flag{
	"ro": {bits: unix.MS_RDONLY}, "rw": {bits: unix.MS_RDONLY, clear: true},
	"nosuid": {bits: unix.MS_NOSUID}, "suid": {bits: unix.MS_NOSUID, clear: true},
	"nodev": {bits: unix.MS_NODEV}, "dev": {bits: unix.MS_NODEV, clear: true},
	"noexec": {bits: unix.MS_NOEXEC}, "exec": {bits: unix.MS_NOEXEC, clear: true},
	"noatime": {bits: unix.MS_NOATIME}, "atime": {bits: unix.MS_NOATIME, clear: true},
	"nodiratime": {bits: unix.MS_NODIRATIME}, "diratime": {bits: unix.MS_NODIRATIME, clear: true},
	"relatime": {bits: unix.MS_RELATIME}, "norelatime": {bits: unix.MS_RELATIME, clear: true},
	"strictatime": {bits: unix.MS_STRICTATIME},
	"sync":        {bits: unix.MS_SYNCHRONOUS}, "async": {bits: unix.MS_SYNCHRONOUS, clear: true},
	"dirsync": {bits: unix.MS_DIRSYNC},
	"remount": {bits: unix.MS_REMOUNT},
	"bind":    {bits: unix.MS_BIND, bind: true},
	"rbind":   {bits: unix.MS_BIND | unix.MS_REC, bind: true},
}

// System is a Mounter for Linux. The process needs CAP_SYS_ADMIN.
type System struct{}

// Detect returns System if this process may mount, else None.
func Detect() Mounter {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return None{}
	}
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("CapEff:")); ok {
			caps, err := strconv.ParseUint(string(bytes.TrimSpace(rest)), 16, 64)
			if err == nil && caps&(1<<unix.CAP_SYS_ADMIN) != 0 {
				return System{}
			}
		}
	}
	return None{}
}

// Mount mounts r. A bind mount gets its flags in a second system call, as the kernel requires. If
// the second call fails, Mount unmounts. A process killed in between leaves the mount without the
// flags; a remount adds them.
func (System) Mount(ctx context.Context, r Request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	fail := func(err error) error { return fmt.Errorf("mount %s at %s: %w", r.what(), r.Target, err) }
	p := parse(r.Options)
	if !p.bind {
		if err := unix.Mount(r.Source, r.Target, r.Type, p.flags, p.data); err != nil {
			return fail(err)
		}
		return nil
	}
	const kinds = unix.MS_BIND | unix.MS_REC
	again := p.flags&unix.MS_REMOUNT != 0
	if !again {
		if err := unix.Mount(r.Source, r.Target, "", p.flags&kinds, ""); err != nil {
			return fail(err)
		}
		if p.flags&^uintptr(kinds) == 0 {
			return nil
		}
	}
	// Flags of the file system's other mounts may be locked: keep them.
	kept := lockedFlags(r.Target)
	if err := unix.Mount("", r.Target, "", p.flags|kept|unix.MS_REMOUNT, ""); err != nil {
		if again {
			return fail(err)
		}
		if undo := unix.Unmount(r.Target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); undo != nil {
			return fail(fmt.Errorf("%w; and to undo it: %w", err, undo))
		}
		return fail(err)
	}
	return nil
}

// lockedFlags returns the restricting flags of a mount, which a process in a user namespace may not
// clear.
func lockedFlags(path string) uintptr {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0
	}
	var out uintptr
	for from, to := range map[int64]uintptr{
		unix.ST_NOSUID: unix.MS_NOSUID, unix.ST_NODEV: unix.MS_NODEV,
		unix.ST_NOEXEC: unix.MS_NOEXEC, unix.ST_RDONLY: unix.MS_RDONLY,
	} {
		if int64(st.Flags)&from != 0 {
			out |= to
		}
	}
	return out
}

// maxStacked is the largest number of stacked mounts that Unmount removes.
const maxStacked = 64

// Unmount unmounts all mounts at target. Unmount is not lazy: a mount in use is an error.
func (s System) Unmount(ctx context.Context, target string) error {
	for range maxStacked {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW); err {
		case nil:
		case unix.EINVAL, unix.ENOENT: // not a mount point, or no such file
			return nil
		default:
			return fmt.Errorf("unmount %s: %w", target, err)
		}
	}
	return fmt.Errorf("unmount %s: more than %d mounts on top of one another", target, maxStacked)
}

// At returns the uppermost mount at path.
func (System) At(path string) (Info, bool, error) { return lookUp(path) }

// List returns all mounts.
func (System) List() ([]Info, error) { return list() }

// At returns the uppermost mount at path.
func (None) At(path string) (Info, bool, error) { return lookUp(path) }

// List returns all mounts.
func (None) List() ([]Info, error) { return list() }

// lookUp asks the kernel about path before reading the whole mount table.
func lookUp(path string) (Info, bool, error) {
	var st unix.Statx_t
	const how = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	switch err := unix.Statx(unix.AT_FDCWD, path, how, 0, &st); {
	case err == unix.ENOENT || err == unix.ENOTDIR:
		return Info{}, false, nil
	case err == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0:
		return Info{}, false, nil
	}
	// path is a mount point, or is broken, or the kernel is older than 5.8. Paths in the mount
	// table have no links.
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return Info{}, false, err
	}
	return at(filepath.Join(dir, filepath.Base(path)))
}
