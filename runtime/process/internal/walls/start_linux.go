// SPDX-License-Identifier: Apache-2.0

package walls

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	goruntime "runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// Probe asks the kernel.
func Probe() Host {
	h := Host{Linux: true, Root: os.Geteuid() == 0}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) == nil {
		h.Caps = uint64(data[0].Permitted) | uint64(data[1].Permitted)<<32
		h.Caps &= 1<<len(capabilities) - 1
	}
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno == 0 {
		h.Landlock = int(abi)
	}
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	h.Seccomp = errno == 0 && architecture != 0 && filters
	return h
}

// Start calls start on a new thread with the walls. The process that start begins has the walls,
// and so have its descendants. The thread lives until release is closed: a process with
// PR_SET_PDEATHSIG ends with the thread that started it.
func Start(w record.Walls, release <-chan struct{}, start func() error) error {
	result := make(chan error, 1)
	go func() {
		goruntime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := raise(w)
		if err == nil {
			err = start()
		}
		result <- err
		if err == nil {
			<-release
		}
	}()
	return <-result
}

// raise puts this thread behind the walls. The filter is last, because it may forbid the calls
// before.
func raise(w record.Walls) error {
	if w.NoNewPrivs {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("no new privileges: %w", err)
		}
	}
	if w.Capabilities != nil {
		if err := keepCapabilities(*w.Capabilities); err != nil {
			return fmt.Errorf("capabilities: %w", err)
		}
	}
	if w.Files != nil || w.Scoped {
		if err := landlock(w.Files, w.Scoped); err != nil {
			return fmt.Errorf("Landlock: %w", err)
		}
	}
	if len(w.Seccomp) > 0 {
		if err := filterCalls(w.Seccomp); err != nil {
			return fmt.Errorf("seccomp: %w", err)
		}
	}
	return nil
}

// keepCapabilities gives up all other capabilities, in every set. A user other than root keeps
// capabilities over execve only in the ambient set.
func keepCapabilities(kept uint64) error {
	for number := range capabilities {
		if kept&(1<<number) != 0 {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(number), 0, 0, 0)
		// Without CAP_SETPCAP the bounding set stays. With no_new_privs no program gains from it.
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for i := range data {
		word := uint32(kept >> (32 * i))
		data[i] = unix.CapUserData{Effective: word, Permitted: word, Inheritable: word}
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return err
	}
	for number := range capabilities {
		if kept&(1<<number) == 0 || os.Geteuid() == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(number), 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// The rights of Landlock. A rule for a file may name the rights of files alone.
const (
	rightsToRead  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	rightsToWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	rightsToMakeDevices = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK // are given nowhere
	rightsOfFiles       = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// landlock restricts this thread. The package go-landlock restricts all threads of a process, which
// is no use for a process that supervises.
func landlock(files *record.Files, scoped bool) error {
	var attr unix.LandlockRulesetAttr
	if files != nil {
		attr.Handled_access_fs = rightsToWrite
		if len(files.Read) > 0 {
			attr.Handled_access_fs |= rightsToRead
		}
	}
	if scoped {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	// An older kernel ignores the fields that it does not know, if they are zero.
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return errno
	}
	rules := int(fd)
	defer unix.Close(rules)
	if files != nil {
		for _, path := range files.Read {
			if err := allow(rules, path, attr.Handled_access_fs&rightsToRead); err != nil {
				return err
			}
		}
		for _, path := range files.Write {
			// Who may write a device or a volume may read it.
			if err := allow(rules, path, attr.Handled_access_fs&(rightsToWrite|rightsToRead)&^rightsToMakeDevices); err != nil {
				return err
			}
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// allow adds a rule for a path and everything below. A path that does not exist needs no rule.
func allow(rules int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= rightsOfFiles
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("%s: %w", path, errno)
	}
	return nil
}

// filterCalls sets up a filter of system calls for this thread.
func filterCalls(raw []byte) error {
	const size = int(unsafe.Sizeof(unix.SockFilter{}))
	if len(raw)%size != 0 {
		return unix.EINVAL
	}
	code := make([]unix.SockFilter, len(raw)/size)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&code[0])), len(raw)), raw)
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	goruntime.KeepAlive(code)
	if errno != 0 {
		return errno
	}
	return nil
}
