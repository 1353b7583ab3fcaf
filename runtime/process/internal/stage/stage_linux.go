// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"encoding/binary"
	"fmt"
	"os"
	goruntime "runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// stage is the list of system calls between the fork and the execve of a process.
type stage struct {
	flags uintptr // of clone
	calls []step
	names []string // what each call does, for errors
	keep  []any    // the memory of the arguments
	hear  int      // the pipe for the report of the process
	tell  int
	words *[2]uintptr // the report
}

// newStage returns an empty stage. The caller closes the stage.
func newStage() (*stage, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	return &stage{flags: uintptr(unix.SIGCHLD), hear: ends[0], tell: ends[1], words: &[2]uintptr{lives}}, nil
}

func (s *stage) close() {
	_ = unix.Close(s.hear)
	if s.tell >= 0 {
		_ = unix.Close(s.tell)
	}
}

// dieWithParent makes the kernel kill the process when the parent thread ends. If the parent has
// ended, the process cannot write its report and ends, too.
func (s *stage) dieWithParent() {
	s.add(must, "parent", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	s.add(may, "", unix.SYS_CLOSE, uintptr(s.hear))
	s.add(must, "parent", unix.SYS_WRITE, uintptr(s.tell), at(s, s.words), unsafe.Sizeof(*s.words))
}

// add adds a call and returns its number.
func (s *stage) add(k kind, what string, number uintptr, args ...uintptr) int {
	c := step{number: number, kind: k}
	copy(c.args[:], args)
	s.calls, s.names = append(s.calls, c), append(s.names, what)
	return len(s.calls) - 1
}

// use makes the result of an earlier call an argument of the last call.
func (s *stage) use(arg, number int) {
	c := &s.calls[len(s.calls)-1]
	c.args[arg], c.results = uintptr(number), c.results|1<<arg
}

// text returns the address of a string for the kernel. A NUL byte ends the string.
func (s *stage) text(v string) uintptr {
	b := append([]byte(v), 0)
	s.keep = append(s.keep, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// list returns the address of a list of strings.
func (s *stage) list(v []string) uintptr {
	p := make([]uintptr, len(v)+1)
	for i, e := range v {
		p[i] = s.text(e)
	}
	s.keep = append(s.keep, p)
	return uintptr(unsafe.Pointer(&p[0]))
}

// at returns the address of a value, which has to be in the heap.
func at[T any](s *stage, v *T) uintptr {
	s.keep = append(s.keep, v)
	return uintptr(unsafe.Pointer(v))
}

// run makes the process. It returns when the process has executed its program, has exited because
// its calls are done, or has failed. The caller's thread is the parent, for PR_SET_PDEATHSIG.
func (s *stage) run() (pid int, err error) {
	first, errno := fork(s.flags, s.calls, uintptr(s.tell), s.words, unsafe.Sizeof(*s.words), at(s, s.words))
	_ = unix.Close(s.tell)
	s.tell = -1
	goruntime.KeepAlive(s)
	if errno != 0 {
		return 0, fmt.Errorf("make namespaces: %w", errno)
	}
	pid = int(first)
	raw, err := readAll(s.hear)
	if err != nil {
		return 0, err
	}
	const word = int(unsafe.Sizeof(uintptr(0)))
	value := func(b []byte) uintptr {
		if word == 4 {
			return uintptr(binary.NativeEndian.Uint32(b))
		}
		return uintptr(binary.NativeEndian.Uint64(b))
	}
	// The process between and its child write in any order.
	for ; len(raw) >= 2*word; raw = raw[2*word:] {
		what, result := value(raw), value(raw[word:])
		switch {
		case what == lives:
		case what == noCall:
			await(pid) // the process between
			pid = int(result)
		case int(what) < len(s.names) && s.names[what] != "":
			err = fmt.Errorf("%s: %w", s.names[what], syscall.Errno(result))
		default:
			err = syscall.Errno(result)
		}
	}
	if err != nil {
		await(pid)
		return 0, err
	}
	return pid, nil
}

// readAll reads the report until the process has executed its program or has ended.
func readAll(fd int) (out []byte, err error) {
	buf := make([]byte, 256)
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EINTR:
		case err != nil || n == 0:
			return out, err
		default:
			out = append(out, buf[:n]...)
		}
	}
}

// await reaps a child.
func await(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
			return
		}
	}
}

// enter makes the process a member of the namespaces of another process. The process that enters
// stays outside of the PID namespace; its child goes on.
func (s *stage) enter(pidfd int, root *record.Root) {
	s.add(must, "enter the container", unix.SYS_SETNS, uintptr(pidfd), namespaces(root))
	s.add(split, "enter the container", unix.SYS_CLONE, uintptr(unix.SIGCHLD)|unix.CLONE_PARENT)
	s.add(must, "file mode mask", unix.SYS_UMASK, 0o022)
}

// unshare gives the process namespaces of its own.
func (s *stage) unshare(root *record.Root) {
	s.flags |= namespaces(root)
	s.add(must, "file mode mask", unix.SYS_UMASK, 0o022)
	if root.OwnUser {
		s.write("/proc/self/setgroups", "deny")
		s.write("/proc/self/gid_map", fmt.Sprintf("%d %d 1", root.GID, os.Getegid()))
		s.write("/proc/self/uid_map", fmt.Sprintf("%d %d 1", root.UID, os.Geteuid()))
	}
	propagation := uintptr(unix.MS_PRIVATE)
	if slices.ContainsFunc(root.Mounts, func(b record.Bind) bool { return b.Follow }) {
		propagation = unix.MS_SLAVE // changeRoot makes the other mounts private
	}
	s.add(must, "own mounts", unix.SYS_MOUNT, 0, s.text("/"), 0, unix.MS_REC|propagation)
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
	fd := s.add(must, name, unix.SYS_OPENAT, atCwd, s.text(name), unix.O_WRONLY|unix.O_CLOEXEC)
	s.add(must, name, unix.SYS_WRITE, 0, s.text(text), uintptr(len(text)))
	s.use(0, fd)
}

// atCwd is AT_FDCWD, -100, as the kernel takes it.
const atCwd = ^uintptr(99)

// tree opens a mount of a path of the host, with everything mounted below. Later mounts of the host
// do not appear.
func (s *stage) tree(from string, attrs uint64) (fd int) {
	fd = s.following(from, attrs)
	attr := &unix.MountAttr{Propagation: unix.MS_PRIVATE}
	s.add(must, "mount "+from, unix.SYS_MOUNT_SETATTR, 0, s.text(""), unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, at(s, attr), unsafe.Sizeof(*attr))
	s.use(0, fd)
	return fd
}

// following opens a mount of a path of the host, with everything mounted below now and later.
func (s *stage) following(from string, attrs uint64) (fd int) {
	what := "mount " + from
	fd = s.add(must, what, unix.SYS_OPEN_TREE, atCwd, s.text(from), unix.OPEN_TREE_CLONE|unix.O_CLOEXEC|unix.AT_RECURSIVE)
	s.attributes(what, fd, attrs, unix.AT_RECURSIVE)
	return fd
}

// attributes adds attributes to an open mount.
func (s *stage) attributes(what string, fd int, attrs uint64, flags uintptr) {
	if attrs == 0 {
		return
	}
	attr := &unix.MountAttr{Attr_set: attrs}
	s.add(must, what, unix.SYS_MOUNT_SETATTR, 0, s.text(""), unix.AT_EMPTY_PATH|flags, at(s, attr), unsafe.Sizeof(*attr))
	s.use(0, fd)
}

// filesystem opens a new file system. An option without a value is a flag.
func (s *stage) filesystem(kind string, attrs uintptr, options ...string) (fd int) {
	what := "mount " + kind
	context := s.add(must, what, unix.SYS_FSOPEN, s.text(kind), 1) // FSOPEN_CLOEXEC
	for _, option := range options {
		key, value, text := strings.Cut(option, "=")
		if text {
			s.add(must, what, unix.SYS_FSCONFIG, 0, unix.FSCONFIG_SET_STRING, s.text(key), s.text(value))
		} else {
			s.add(must, what, unix.SYS_FSCONFIG, 0, unix.FSCONFIG_SET_FLAG, s.text(key))
		}
		s.use(0, context)
	}
	s.add(must, what, unix.SYS_FSCONFIG, 0, unix.FSCONFIG_CMD_CREATE)
	s.use(0, context)
	fd = s.add(must, what, unix.SYS_FSMOUNT, 0, unix.FSMOUNT_CLOEXEC, attrs)
	s.use(0, context)
	return fd
}

// place mounts an open mount in the container. Links in the path lead nowhere but into the
// container, because its root is the root of the process.
func (s *stage) place(fd int, to string, file bool) {
	for i := 1; i < len(to); i++ {
		if to[i] == '/' {
			s.folder(to[:i], 0o755)
		}
	}
	if file {
		s.add(may, "", unix.SYS_OPENAT, atCwd, s.text(to), unix.O_CREAT|unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o644)
	} else {
		s.folder(to, 0o755)
	}
	s.add(must, "mount at "+to, unix.SYS_MOVE_MOUNT, 0, s.text(""), atCwd, s.text(to), unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS)
	s.use(0, fd)
}

// folder makes a folder that may exist.
func (s *stage) folder(name string, mode uintptr) {
	s.add(may, "", unix.SYS_MKDIRAT, atCwd, s.text(name), mode)
}

// link makes a symbolic link that may exist.
func (s *stage) link(to, name string) {
	s.add(may, "", unix.SYS_SYMLINKAT, s.text(to), atCwd, s.text(name))
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
	// While the host's files are in sight.
	trees := make([]int, len(root.Mounts))
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
	devices := make([]int, len(nodes))
	for i, name := range nodes {
		devices[i] = s.tree("/dev/"+name, noSetuid|noExec)
	}
	proc := -1
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
	queues := -1
	if !root.HostIPC {
		queues = s.filesystem("mqueue", noSetuid|noDevice|noExec)
	}

	var files int
	if root.Lower == "" {
		files = s.tree(root.Dir, noSetuid|noDevice)
	} else {
		options := []string{"lowerdir=" + escape(root.Lower), "upperdir=" + escape(root.Upper), "workdir=" + escape(root.Scratch)}
		if root.OwnUser {
			options = append(options, "userxattr")
		}
		files = s.filesystem("overlay", noSetuid|noDevice, options...)
	}
	s.add(must, "mount "+root.Dir, unix.SYS_MOVE_MOUNT, 0, s.text(""), atCwd, s.text(root.Dir), unix.MOVE_MOUNT_F_EMPTY_PATH)
	s.use(0, files)
	s.add(must, "change to "+root.Dir, unix.SYS_CHDIR, s.text(root.Dir))
	s.add(must, "change the root", unix.SYS_PIVOT_ROOT, s.text("."), s.text("."))
	s.add(must, "leave the old root", unix.SYS_UMOUNT2, s.text("."), unix.MNT_DETACH)
	s.add(must, "change to /", unix.SYS_CHDIR, s.text("/"))

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
	if queues >= 0 {
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
		attr := &unix.MountAttr{Attr_set: readOnly}
		s.add(must, "read-only root file system", unix.SYS_MOUNT_SETATTR, atCwd, s.text("/"), 0, at(s, attr), unsafe.Sizeof(*attr))
	}
	if root.Hostname != "" {
		s.add(must, "host name", unix.SYS_SETHOSTNAME, s.text(root.Hostname), uintptr(len(root.Hostname)))
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

// user changes to the user and the groups of the container. In a user namespace they are mapped
// already.
func (s *stage) user(root *record.Root) {
	if root.OwnUser {
		return
	}
	groups := append([]uint32{root.GID}, root.Groups...)
	s.keep = append(s.keep, groups)
	s.add(must, "supplementalGroups", setgroups, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])))
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
	var data [2]unix.CapUserData
	for i := range data {
		word := uint32(kept >> (32 * i))
		data[i] = unix.CapUserData{Effective: word, Permitted: word, Inheritable: word}
	}
	s.add(must, what, unix.SYS_CAPSET, at(s, &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}), at(s, &data))
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
	code := make([]unix.SockFilter, len(raw)/size)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&code[0])), len(code)*size), raw)
	p := &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	s.add(must, "seccomp", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, at(s, p))
}
