// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
	"github.com/keelson-dev/keelson/runtime/process/internal/tiny"
)

// stage is the list of system calls between the fork and the execve of a process.
type stage struct {
	tiny.Program
	flags uintptr    // of clone
	names []string   // what each call does, for errors
	fail  tiny.Label // the report of an error
	made  tiny.Arg   // the clone of a process between, if there is one
	split tiny.Label // what its parent does
	wary  func()     // adds a check that the parent lives; may be nil
	ready func()     // adds calls before the last walls; may be nil
	err   error      // of add
}

// newStage returns an empty stage.
func newStage() *stage {
	s := &stage{flags: uintptr(unix.SIGCHLD)}
	s.fail, s.split = s.Label(), s.Label()
	return s
}

// The kinds of calls, by what an error means.
const (
	must    = tiny.Fails   // the stage fails
	may     = tiny.Follow  // the error is ignored
	program = tiny.Execute // the next program is tried if this program does not exist
)

// add adds a call and returns its result. An argument is a number or a tiny.Arg.
func (s *stage) add(kind tiny.Next, what string, number uintptr, args ...any) tiny.Arg {
	var list [6]tiny.Arg
	for i, arg := range args {
		switch v := arg.(type) {
		case tiny.Arg:
			list[i] = v
		case int:
			list[i] = tiny.N(v)
		case uint32:
			list[i] = tiny.N(v)
		case uint64:
			list[i] = tiny.N(v)
		case uintptr:
			list[i] = tiny.N(v)
		default:
			s.err = fmt.Errorf("%s: an argument of type %T", what, arg)
		}
	}
	s.names = append(s.names, what)
	return s.Call(kind, s.fail, number, list[:]...)
}

// dieWithParent makes the kernel kill the process when the parent thread ends.
func (s *stage) dieWithParent() {
	s.add(must, "parent", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	if s.wary != nil {
		s.wary()
	}
}

// The first words of reports that are not a Failed.
const (
	made  = ^uintptr(0) // the second word is the PID of a new process
	lives = made - 1    // the process has prepared everything
)

// end adds the last calls of the stage. A process that cannot execute its program writes the
// tiny.Failed at the address failed to the descriptors to, and exits.
func (s *stage) end(failed tiny.Arg, to ...tiny.Arg) {
	s.Place(s.fail)
	for _, fd := range to {
		s.add(may, "", unix.SYS_WRITE, fd, failed, 2*wordSize)
	}
	s.add(may, "", unix.SYS_EXIT_GROUP, 1)
}

// wordSize is the size of an address in bytes.
const wordSize = int(unsafe.Sizeof(uintptr(0)))

// failure returns the error of a tiny.Failed, for steps from the address first.
func (s *stage) failure(first, step, errno uintptr) error {
	if i := int((step - first) / tiny.StepSize); i < len(s.names) && s.names[i] != "" {
		return fmt.Errorf("%s: %w", s.names[i], syscall.Errno(errno))
	}
	return syscall.Errno(errno)
}

// enter makes the process a member of the namespaces of another process. The process that enters
// stays outside of the PID namespace; its child goes on.
func (s *stage) enter(pidfd int, root *record.Root) {
	s.add(must, "enter the container", unix.SYS_SETNS, uintptr(pidfd), namespaces(root)|network(root))
	s.clone(uintptr(unix.SIGCHLD) | unix.CLONE_PARENT)
	s.add(must, "file mode mask", unix.SYS_UMASK, 0o022)
}

// clone makes a child, which goes on. Its parent goes on at split.
func (s *stage) clone(flags uintptr) {
	s.names = append(s.names, "make a process")
	s.made = s.Call(tiny.Parent, s.split, unix.SYS_CLONE, tiny.N(flags), tiny.N(0), tiny.N(0), tiny.N(0), tiny.N(0), tiny.N(made))
}

// unshare gives the process namespaces of its own.
func (s *stage) unshare(root *record.Root) {
	s.flags |= namespaces(root)
	s.furnish(root)
}

// furnish prepares the new namespaces.
func (s *stage) furnish(root *record.Root) {
	s.add(must, "file mode mask", unix.SYS_UMASK, 0o022)
	if root.OwnUser && !root.MapsIDs() {
		s.mapUser(root)
	}
	propagation := uintptr(unix.MS_PRIVATE)
	if slices.ContainsFunc(root.Mounts, func(b record.Bind) bool { return b.Follow }) {
		propagation = unix.MS_SLAVE // changeRoot makes the other mounts private
	}
	s.add(must, "own mounts", unix.SYS_MOUNT, 0, s.Text("/"), 0, unix.MS_REC|propagation)
}

// mapUser maps a user and a group of the new user namespace to the caller's.
func (s *stage) mapUser(root *record.Root) {
	uid, gid := os.Geteuid(), os.Getegid()
	if root.Network != nil && root.IDs != nil {
		uid, gid = 0, 0 // the caller's numbers in the user namespace of the network
	}
	s.write("/proc/self/setgroups", "deny")
	s.write("/proc/self/gid_map", fmt.Sprintf("%d %d 1", root.GID, gid))
	s.write("/proc/self/uid_map", fmt.Sprintf("%d %d 1", root.UID, uid))
}

// namespaces returns the flags of the namespaces that a container has for itself.
func namespaces(root *record.Root) uintptr {
	flags := uintptr(unix.CLONE_NEWNS | unix.CLONE_NEWUTS)
	if root.OwnUser {
		flags |= unix.CLONE_NEWUSER
	}
	if !root.HostPID {
		flags |= unix.CLONE_NEWPID
	}
	if !root.HostIPC {
		flags |= unix.CLONE_NEWIPC
	}
	return flags
}

// write writes a file.
func (s *stage) write(name, text string) {
	fd := s.add(must, name, unix.SYS_OPENAT, atCwd, s.Text(name), unix.O_WRONLY|unix.O_CLOEXEC)
	s.add(must, name, unix.SYS_WRITE, fd, s.Text(text), len(text))
}

// atCwd is AT_FDCWD, -100, as the kernel takes it.
const atCwd = ^uintptr(99)

// tree opens a mount of a path of the host, with everything mounted below. Later mounts of the host
// do not appear.
func (s *stage) tree(from string, attrs uint64) (fd tiny.Arg) {
	fd = s.following(from, attrs)
	attr := []unix.MountAttr{{Propagation: unix.MS_PRIVATE}}
	s.add(must, "mount "+from, unix.SYS_MOUNT_SETATTR, fd, s.Text(""), unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, tiny.Values(&s.Program, attr), unsafe.Sizeof(attr[0]))
	return fd
}

// following opens a mount of a path of the host, with everything mounted below now and later.
func (s *stage) following(from string, attrs uint64) (fd tiny.Arg) {
	what := "mount " + from
	fd = s.add(must, what, unix.SYS_OPEN_TREE, atCwd, s.Text(from), unix.OPEN_TREE_CLONE|unix.O_CLOEXEC|unix.AT_RECURSIVE)
	s.attributes(what, fd, attrs, unix.AT_RECURSIVE)
	return fd
}

// attributes adds attributes to an open mount.
func (s *stage) attributes(what string, fd tiny.Arg, attrs uint64, flags uintptr) {
	if attrs == 0 {
		return
	}
	attr := []unix.MountAttr{{Attr_set: attrs}}
	s.add(must, what, unix.SYS_MOUNT_SETATTR, fd, s.Text(""), unix.AT_EMPTY_PATH|flags, tiny.Values(&s.Program, attr), unsafe.Sizeof(attr[0]))
}

// filesystem opens a new file system. An option without a value is a flag.
func (s *stage) filesystem(kind string, attrs uintptr, options ...string) (fd tiny.Arg) {
	what := "mount " + kind
	context := s.add(must, what, unix.SYS_FSOPEN, s.Text(kind), 1) // FSOPEN_CLOEXEC
	for _, option := range options {
		key, value, text := strings.Cut(option, "=")
		if text {
			s.add(must, what, unix.SYS_FSCONFIG, context, unix.FSCONFIG_SET_STRING, s.Text(key), s.Text(value))
		} else {
			s.add(must, what, unix.SYS_FSCONFIG, context, unix.FSCONFIG_SET_FLAG, s.Text(key))
		}
	}
	s.add(must, what, unix.SYS_FSCONFIG, context, unix.FSCONFIG_CMD_CREATE)
	fd = s.add(must, what, unix.SYS_FSMOUNT, context, unix.FSMOUNT_CLOEXEC, attrs)
	return fd
}

// place mounts an open mount in the container. Links in the path lead nowhere but into the
// container, because its root is the root of the process.
func (s *stage) place(fd tiny.Arg, to string, file bool) {
	for i := 1; i < len(to); i++ {
		if to[i] == '/' {
			s.folder(to[:i], 0o755)
		}
	}
	if file {
		s.add(may, "", unix.SYS_OPENAT, atCwd, s.Text(to), unix.O_CREAT|unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o644)
	} else {
		s.folder(to, 0o755)
	}
	s.add(must, "mount at "+to, unix.SYS_MOVE_MOUNT, fd, s.Text(""), atCwd, s.Text(to), unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS)
}

// folder makes a folder that may exist.
func (s *stage) folder(name string, mode uintptr) {
	s.add(may, "", unix.SYS_MKDIRAT, atCwd, s.Text(name), mode)
}

// link makes a symbolic link that may exist.
func (s *stage) link(to, name string) {
	s.add(may, "", unix.SYS_SYMLINKAT, s.Text(to), atCwd, s.Text(name))
}

// nodes are the devices of every container.
var nodes = []string{"null", "zero", "full", "random", "urandom", "tty"}

// Files of /proc about the kernel, not about processes.
var (
	fixedInProc  = []string{"sys", "irq", "bus", "fs", "sysrq-trigger"}
	hiddenInProc = []string{"kcore", "keys", "latency_stats", "timer_list", "kmsg", "kpagecount", "kpageflags", "kpagecgroup", "acpi", "scsi"}
)

const (
	noSetuid = unix.MOUNT_ATTR_NOSUID
	noDevice = unix.MOUNT_ATTR_NODEV
	noExec   = unix.MOUNT_ATTR_NOEXEC
	readOnly = unix.MOUNT_ATTR_RDONLY
)

// changeRoot makes root.Dir the root of the process, with the mounts of the container.
func (s *stage) changeRoot(root *record.Root) {
	s.Grow(300, 10<<10)
	// While the host's files are in sight.
	trees := make([]tiny.Arg, len(root.Mounts))
	for i, m := range root.Mounts {
		attrs := uint64(noSetuid)
		if m.ReadOnly {
			attrs |= readOnly
		}
		if !m.Device {
			attrs |= noDevice
		}
		switch {
		case m.Follow:
			trees[i] = s.following(m.From, attrs)
		case m.Over == "":
			trees[i] = s.tree(m.From, attrs)
		default:
			trees[i] = s.filesystem("overlay", uintptr(attrs), "lowerdir="+escape(m.Over)+":"+escape(m.From))
		}
	}
	devices := make([]tiny.Arg, len(nodes))
	for i, name := range nodes {
		devices[i] = s.tree("/dev/"+name, noSetuid|noExec)
	}
	var proc, queues tiny.Arg
	if root.HostPID {
		proc = s.tree("/proc", noSetuid|noDevice|noExec)
	} else {
		// The kernel refuses /proc to a user namespace if the host hides parts of its own.
		proc = s.filesystem("proc", noSetuid|noDevice|noExec)
	}
	sys := s.tree("/sys", noSetuid|noDevice|noExec|readOnly)
	dev := s.filesystem("tmpfs", noSetuid|noExec, "mode=755", "size=65536")
	pts := s.filesystem("devpts", noSetuid|noExec, "newinstance", "ptmxmode=0666", "mode=0620")
	shm := s.filesystem("tmpfs", noSetuid|noDevice|noExec, "mode=1777", "size=67108864")
	if !root.HostIPC {
		queues = s.filesystem("mqueue", noSetuid|noDevice|noExec)
	}

	var files tiny.Arg
	if root.Lower == "" {
		files = s.tree(root.Dir, noSetuid|noDevice)
	} else {
		options := []string{"lowerdir=" + escape(root.Lower), "upperdir=" + escape(root.Upper), "workdir=" + escape(root.Scratch)}
		if root.OwnUser {
			options = append(options, "userxattr")
		}
		files = s.filesystem("overlay", noSetuid|noDevice, options...)
	}
	s.add(must, "mount "+root.Dir, unix.SYS_MOVE_MOUNT, files, s.Text(""), atCwd, s.Text(root.Dir), unix.MOVE_MOUNT_F_EMPTY_PATH)
	s.add(must, "change to "+root.Dir, unix.SYS_CHDIR, s.Text(root.Dir))
	s.add(must, "change the root", unix.SYS_PIVOT_ROOT, s.Text("."), s.Text("."))
	s.add(must, "leave the old root", unix.SYS_UMOUNT2, s.Text("."), unix.MNT_DETACH)
	s.add(must, "change to /", unix.SYS_CHDIR, s.Text("/"))
	for _, o := range root.Owners {
		if root.IDs.Users.Count >= o.UID && root.IDs.Groups.Count >= o.GID {
			s.add(must, "owner of "+o.Path, unix.SYS_FCHOWNAT, atCwd, s.Text(o.Path), o.UID, o.GID, unix.AT_SYMLINK_NOFOLLOW)
		}
	}

	s.place(proc, "/proc", false)
	for _, name := range fixedInProc {
		s.cover("/proc/"+name, readOnly|noSetuid|noDevice|noExec)
	}
	s.place(sys, "/sys", false)
	s.place(dev, "/dev", false)
	for i, name := range nodes {
		s.place(devices[i], "/dev/"+name, true)
	}
	for _, name := range hiddenInProc {
		switch info, err := os.Stat("/proc/" + name); {
		case err != nil:
		case info.IsDir():
			s.place(s.filesystem("tmpfs", noSetuid|noDevice|noExec|readOnly, "size=4096"), "/proc/"+name, false)
		default:
			s.place(s.tree("/dev/null", noSetuid|noExec), "/proc/"+name, true)
		}
	}
	s.place(pts, "/dev/pts", false)
	s.place(shm, "/dev/shm", false)
	if !root.HostIPC {
		s.place(queues, "/dev/mqueue", false)
	}
	s.link("pts/ptmx", "/dev/ptmx")
	s.link("/proc/self/fd", "/dev/fd")
	for i, name := range []string{"stdin", "stdout", "stderr"} {
		s.link(fmt.Sprintf("/proc/self/fd/%d", i), "/dev/"+name)
	}
	for i, m := range root.Mounts {
		s.place(trees[i], m.To, m.File)
	}
	if root.ReadOnly {
		attr := []unix.MountAttr{{Attr_set: readOnly}}
		s.add(must, "read-only root file system", unix.SYS_MOUNT_SETATTR, atCwd, s.Text("/"), 0, tiny.Values(&s.Program, attr), unsafe.Sizeof(attr[0]))
	}
	if root.Hostname != "" {
		s.add(must, "host name", unix.SYS_SETHOSTNAME, s.Text(root.Hostname), uintptr(len(root.Hostname)))
	}
}

// cover mounts a path over itself with more attributes. A path that this kernel does not have is
// left out.
func (s *stage) cover(name string, attrs uint64) {
	if info, err := os.Stat(name); err == nil {
		s.place(s.tree(name, attrs), name, !info.IsDir())
	}
}

// escape escapes the characters that separate the folders of an overlay.
func escape(folder string) string {
	return strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(folder)
}

// user changes to the user and the groups of the container. In a user namespace with a single user they are mapped
// already.
func (s *stage) user(root *record.Root) {
	if root.OwnUser && !root.MapsIDs() {
		return
	}
	groups := append([]uint32{root.GID}, root.Groups...)
	s.add(must, "supplementalGroups", setgroups, len(groups), tiny.Values(&s.Program, groups))
	s.add(must, "runAsGroup", setresgid, uintptr(root.GID), uintptr(root.GID), uintptr(root.GID))
	s.add(must, "runAsUser", setresuid, uintptr(root.UID), uintptr(root.UID), uintptr(root.UID))
}

// bound takes the other capabilities out of the bounding set. Without CAP_SETPCAP the bounding set
// stays. With no_new_privs no program gains from it.
func (s *stage) bound(kept uint64) {
	for number := range unix.CAP_LAST_CAP + 1 {
		if kept&(1<<number) == 0 {
			s.add(may, "", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(number))
		}
	}
}

// hold gives up all other capabilities in the other sets. A user other than root keeps capabilities
// over execve only in the ambient set.
func (s *stage) hold(kept uint64, uid int) {
	const what = "capabilities"
	s.add(must, what, unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	data := make([]unix.CapUserData, 2)
	for i := range data {
		word := uint32(kept >> (32 * i))
		data[i] = unix.CapUserData{Effective: word, Permitted: word, Inheritable: word}
	}
	s.add(must, what, unix.SYS_CAPSET, tiny.Values(&s.Program, []unix.CapUserHeader{{Version: unix.LINUX_CAPABILITY_VERSION_3}}), tiny.Values(&s.Program, data))
	for number := range unix.CAP_LAST_CAP + 1 {
		if kept&(1<<number) != 0 && uid != 0 {
			s.add(must, what, unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(number))
		}
	}
}

// filter sets up a filter of system calls. The filter has to allow nothing but execve, because it
// is the last wall.
func (s *stage) filter(raw []byte) {
	const size = int(unsafe.Sizeof(unix.SockFilter{}))
	code := s.Put(raw)
	program := tiny.Values(&s.Program, []unix.SockFprog{{Len: uint16(len(raw) / size)}})
	s.Point(program, int(unsafe.Offsetof(unix.SockFprog{}.Filter)), code)
	s.add(must, "seccomp", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, program)
}
