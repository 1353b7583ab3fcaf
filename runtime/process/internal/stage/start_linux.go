// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	goruntime "runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// errNoNamespaces is the error of a build without filters of system calls. Such a build confines no
// container, and only confined containers have namespaces.
var errNoNamespaces = errors.New("this build has no namespaces")

// TryNamespaces makes namespaces with the file systems of a container, for a process that ends at
// once. An agent without the permission to create namespaces needs a separate user namespace.
func TryNamespaces(ownUser bool) error {
	if !Built {
		return errNoNamespaces
	}
	c, err := newChild()
	if err != nil {
		return err
	}
	defer c.close()
	s := c.stage
	s.unshare(&record.Root{OwnUser: ownUser})
	s.dieWithParent()
	s.filesystem("proc", noSetuid)
	s.filesystem("devpts", noSetuid, "newinstance", "ptmxmode=0666", "mode=0620")
	s.filesystem("mqueue", noSetuid)
	s.attributes("mount attributes", s.filesystem("tmpfs", noSetuid), readOnly, unix.AT_RECURSIVE)
	s.add(must, "exit", unix.SYS_EXIT_GROUP, 0)
	pid, err := c.run()
	if err == nil {
		await(pid)
	}
	return err
}

// Start makes a process in a new session, which the kernel kills when the calling thread ends. A
// process without walls is made by package os.
func Start(c Command) (*os.Process, error) {
	for i, f := range c.Files {
		if f != nil {
			continue
		}
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		defer null.Close()
		c.Files[i] = null
	}
	if !c.Walls.Any() {
		return os.StartProcess(c.Programs[0], c.Args, &os.ProcAttr{
			Dir: c.Dir, Env: c.Env, Files: c.Files[:],
			Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Setctty: c.Terminal},
		})
	}
	child, err := newChild()
	if err != nil {
		return nil, err
	}
	defer child.close()
	if err := child.prepare(&c, child.pass); err != nil {
		return nil, err
	}
	pid, err := child.run()
	goruntime.KeepAlive(c)
	if err != nil {
		return nil, err
	}
	return os.FindProcess(pid)
}

// prepare adds all calls for a command. pass makes the process inherit a descriptor and returns its
// number there. ready may add calls before the last walls.
func (s *stage) prepare(c *Command, pass func(*os.File) (fd int, err error)) error {
	w, root := c.Walls, c.Walls.Root
	if !Built { // the compiler leaves out all that needs a root
		if root = nil; w.Root != nil {
			return errNoNamespaces
		}
	}
	if w.Cgroup != nil {
		for _, folder := range w.Cgroup.Folders {
			s.write(folder+"/cgroup.procs", "0") // 0 is the writer
		}
	}
	switch {
	case c.As != nil:
		if err := s.enterUsers(c.As, pass); err != nil {
			return err
		}
		s.user(&record.Root{})
	case root == nil:
	case c.Beside != nil:
		s.enter(int(c.Beside.Fd()), root)
	case root.Network != nil || root.MapsIDs():
		if err := s.join(root, pass); err != nil {
			return err
		}
	default:
		s.unshare(root)
	}
	s.dieWithParent()
	s.add(must, "session", unix.SYS_SETSID)
	if root != nil && c.Beside == nil {
		s.changeRoot(root)
	}
	for i, f := range c.Files {
		fd, err := pass(f)
		if err != nil {
			return err
		}
		s.add(must, "files", unix.SYS_DUP3, fd, i, 0)
	}
	if c.Terminal {
		s.add(must, "terminal", unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0)
	}
	s.add(must, "working directory "+c.Dir, unix.SYS_CHDIR, s.Text(c.Dir))
	if w.Capabilities != nil {
		s.bound(*w.Capabilities)
	}
	if root != nil {
		s.user(root)
		s.dieWithParent() // a change of the user has undone it
	}
	if w.NoNewPrivs {
		s.add(must, "no new privileges", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	}
	switch {
	case w.Capabilities == nil:
	case root != nil && root.UID != 0:
		s.hold(0, int(root.UID))
	case root != nil && root.MapsIDs():
		s.hold(*w.Capabilities, 0)
	default:
		s.hold(*w.Capabilities, os.Geteuid())
	}
	if w.Files != nil || w.Scoped {
		rules, err := landlock(w)
		if err != nil {
			return fmt.Errorf("Landlock: %w", err)
		}
		fd, err := pass(rules)
		_ = rules.Close()
		if err != nil {
			return err
		}
		s.add(must, "Landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, fd)
	}
	if s.ready != nil {
		s.ready()
	}
	args, env := s.List(c.Args), s.List(c.Env)
	s.add(must, "close files", unix.SYS_CLOSE_RANGE, 3, uintptr(1<<32-1), unix.CLOSE_RANGE_CLOEXEC)
	if len(w.Seccomp) > 0 {
		s.filter(w.Seccomp)
	}
	for _, name := range c.Programs {
		s.add(program, "", unix.SYS_EXECVE, s.Text(name), args, env)
	}
	return s.err
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

// landlock returns a set of rules. The package go-landlock restricts all threads of a process, which
// is no use for a process that supervises. Signals need no rule in a PID namespace.
func landlock(w record.Walls) (rules *os.File, err error) {
	files := w.Files
	var attr unix.LandlockRulesetAttr
	if files != nil {
		attr.Handled_access_fs = rightsToWrite
		if len(files.Read) > 0 {
			attr.Handled_access_fs |= rightsToRead
		}
	}
	if w.Scoped {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		if w.Root == nil || w.Root.HostPID {
			attr.Scoped |= unix.LANDLOCK_SCOPE_SIGNAL
		}
	}
	// An older kernel ignores unknown fields that are zero.
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return nil, errno
	}
	rules = os.NewFile(fd, "rules")
	defer func() {
		if err != nil {
			_ = rules.Close()
		}
	}()
	if files == nil {
		return rules, nil
	}
	for _, path := range files.Read {
		if err := allow(int(fd), path, attr.Handled_access_fs&rightsToRead); err != nil {
			return nil, err
		}
	}
	for _, path := range files.Write {
		// Permission to write a device or a volume includes permission to read.
		if err := allow(int(fd), path, attr.Handled_access_fs&(rightsToWrite|rightsToRead)&^rightsToMakeDevices); err != nil {
			return nil, err
		}
	}
	return rules, nil
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
