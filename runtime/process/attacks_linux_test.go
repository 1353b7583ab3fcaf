// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attackEnv makes the test binary the attacker in a container.
const attackEnv = "PROCESS_TEST_ATTACK"

// target is the victim of the attacks, as the attacker knows it.
type target struct {
	outside  string // a folder of the same user outside of the container
	stranger int    // a process of the same user outside of the container
	socket   string // name of an abstract socket outside of the container
	setuid   string // a set-user-ID program of another user; may be empty
	records  string // the state folder of the container's pod
}

// The layers that hold.
const (
	byMounts  = "mount namespace"
	byPIDs    = "PID namespace"
	byFiles   = "Landlock: files"
	byScope   = "Landlock: scope"
	byDomain  = "Landlock: ptrace"
	byFilter  = "seccomp"
	byNoGain  = "no_new_privs"
	byShim    = "shim"
	byKernel  = "kernel"
	everyUser = "user"
	onlyRoot  = "root"
	perhaps   = "" // depends on the kernel's settings
)

// attack is an attempt to leave the container. A nil error means that the attempt succeeded.
type attack struct {
	name  string
	layer string // that holds in a confined container
	works string // the users for whom the attempt works without walls
	try   func(t target) error
}

// layerInNamespaces is the layer that holds where containers have namespaces.
func (a attack) layerInNamespaces() string {
	switch {
	case a.layer == byFiles:
		return byMounts
	case a.layer == byDomain || strings.HasPrefix(a.name, "signal "):
		return byPIDs
	}
	return a.layer
}

func open(flags int, path string) error {
	fd, err := unix.Open(path, flags|unix.O_NONBLOCK, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// raw calls the kernel by number. EFAULT and EINVAL tell that the call was let in.
func raw(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno == 0 || errno == unix.EFAULT || errno == unix.EINVAL || errno == unix.EBADF {
		return nil
	}
	return errno
}

func ofStranger(t target, name string) string { return fmt.Sprintf("/proc/%d/%s", t.stranger, name) }

// attacks are tried in this order.
var attacks = []attack{
	{"use an inherited file", byShim, perhaps, func(target) error {
		entries, err := os.ReadDir("/proc/self/fd")
		for _, e := range entries {
			n, _ := strconv.Atoi(e.Name())
			link, linkErr := os.Readlink("/proc/self/fd/" + e.Name())
			own := strings.HasPrefix(link, "anon_inode:") || strings.HasPrefix(link, "/proc/") || strings.HasPrefix(link, "/sys/")
			if n > 2 && linkErr == nil && !own {
				return nil
			}
		}
		return errors.Join(errors.New("no file but 0, 1 and 2"), err)
	}},
	{"read a file", byFiles, everyUser, func(t target) error { return open(unix.O_RDONLY, t.outside+"/secret") }},
	{"write a file", byFiles, everyUser, func(t target) error { return open(unix.O_WRONLY, t.outside+"/secret") }},
	{"make a file", byFiles, everyUser, func(t target) error { return open(unix.O_CREAT|unix.O_WRONLY, t.outside+"/made") }},
	{"truncate a file", byFiles, everyUser, func(t target) error { return unix.Truncate(t.outside+"/empty", 0) }},
	{"list a folder", byFiles, everyUser, func(t target) error { return open(unix.O_RDONLY|unix.O_DIRECTORY, t.outside) }},
	{"read through a symbolic link", byFiles, everyUser, func(t target) error {
		if err := os.Symlink(t.outside+"/secret", "link"); err != nil {
			return err
		}
		return open(unix.O_RDONLY, "link")
	}},
	{"read through a hard link", byFiles, perhaps, func(t target) error {
		if err := unix.Link(t.outside+"/secret", "hard"); err != nil {
			return err
		}
		return open(unix.O_RDONLY, "hard")
	}},
	{"move a file in", byFiles, perhaps, func(t target) error { return unix.Rename(t.outside+"/moved", "moved") }},
	{"read through /proc/self/root", byFiles, everyUser, func(t target) error { return open(unix.O_RDONLY, "/proc/self/root"+t.outside+"/secret") }},
	{"execute a file", byFiles, everyUser, func(t target) error { return exec.Command(t.outside + "/program").Run() }},
	{"read the container's records", byFiles, everyUser, func(t target) error {
		_, err := os.ReadDir(t.records)
		return err
	}},
	{"forge the container's exit", byFiles, everyUser, func(t target) error { return open(unix.O_WRONLY|unix.O_CREAT, t.records+"/.forged") }},
	{"climb out of a changed root", byFiles, onlyRoot, func(t target) error {
		child := exec.Command("/proc/self/exe")
		child.Env = []string{climbEnv + "=" + t.outside}
		return child.Run()
	}},
	{"write kernel settings", byFiles, onlyRoot, func(target) error { return open(unix.O_WRONLY, "/proc/sys/kernel/core_pattern") }},
	{"write sysrq-trigger", byFiles, perhaps, func(target) error { return open(unix.O_WRONLY, "/proc/sysrq-trigger") }},
	{"make a device", byFiles, onlyRoot, func(target) error {
		if err := unix.Mknod("zero", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))); err != nil {
			return err
		}
		return open(unix.O_RDONLY, "zero")
	}},
	{"open the kernel's log", byFiles, perhaps, func(target) error { return open(unix.O_RDONLY, "/dev/kmsg") }},
	{"leave the cgroup", byFiles, perhaps, func(target) error {
		for _, path := range []string{"/sys/fs/cgroup/unified/cgroup.procs", "/sys/fs/cgroup/cgroup.procs"} {
			if err := open(unix.O_WRONLY, path); !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
		return unix.ENOENT
	}},

	{"signal a stranger", byScope, everyUser, func(t target) error { return unix.Kill(t.stranger, unix.SIGCONT) }},
	{"signal the shim", byScope, everyUser, func(target) error {
		shim := os.Getppid()
		if shim == 0 {
			return unix.ESRCH // outside of the PID namespace
		}
		return unix.Kill(shim, unix.SIGCONT)
	}},
	{"connect to an abstract socket", byScope, everyUser, func(t target) error {
		c, err := net.Dial("unix", "@"+t.socket)
		if err == nil {
			c.Close()
		}
		return err
	}},

	{"read a stranger's environment", byDomain, perhaps, func(t target) error { return open(unix.O_RDONLY, ofStranger(t, "environ")) }},
	{"read a stranger's memory", byDomain, perhaps, func(t target) error { return open(unix.O_RDWR, ofStranger(t, "mem")) }},
	{"list a stranger's files", byDomain, perhaps, func(t target) error { return open(unix.O_RDONLY, ofStranger(t, "fd/0")) }},
	{"read through a stranger's root", byDomain, perhaps, func(t target) error { return open(unix.O_RDONLY, ofStranger(t, "root")+t.outside+"/secret") }},
	{"trace a stranger", byDomain, perhaps, func(t target) error {
		_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(t.stranger), 0, 0, 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	}},
	{"copy a stranger's memory", byDomain, perhaps, func(t target) error {
		var b [1]byte
		local := unix.Iovec{Base: &b[0], Len: 1}
		_, err := unix.ProcessVMReadv(t.stranger, []unix.Iovec{local}, []unix.RemoteIovec{{Base: 0x1000, Len: 1}}, 0)
		if errors.Is(err, unix.EFAULT) {
			return nil // the address is wrong, the access is not
		}
		return err
	}},

	{"take a stranger's file", byFilter, perhaps, func(t target) error {
		fd, err := unix.PidfdOpen(t.stranger, 0)
		if err != nil {
			return err
		}
		_, err = unix.PidfdGetfd(fd, 0, 0)
		return err
	}},
	{"make a user namespace", byFilter, perhaps, func(target) error {
		c := exec.Command("/bin/true")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
		return c.Run()
	}},
	{"make a user namespace by clone3", byFilter, perhaps, func(target) error {
		args := [11]uint64{unix.CLONE_NEWUSER} // struct clone_args, without a signal at the end
		pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
		switch {
		case errno != 0:
			return errno
		case pid == 0:
			for {
				unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
		}
		_, err := unix.Wait4(int(pid), nil, unix.WALL, nil)
		return err
	}},
	{"unshare the mounts", byFilter, onlyRoot, func(target) error { return raw(unix.SYS_UNSHARE, unix.CLONE_NEWNS) }},
	{"mount", byFilter, onlyRoot, func(target) error {
		if err := os.MkdirAll("m", 0o700); err != nil {
			return err
		}
		err := unix.Mount("none", "m", "tmpfs", 0, "")
		_ = unix.Unmount("m", 0)
		return err
	}},
	{"join a namespace", byFilter, everyUser, func(target) error { return raw(unix.SYS_SETNS, ^uintptr(0)) }},
	{"open by handle", byFilter, perhaps, func(target) error { return raw(unix.SYS_OPEN_BY_HANDLE_AT, ^uintptr(0), 0) }},
	{"read the keyring", byFilter, everyUser, func(target) error { return raw(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, ^uintptr(2), 1) }},
	{"add a key", byFilter, everyUser, func(target) error { return raw(unix.SYS_ADD_KEY) }},
	{"io_uring", byFilter, perhaps, func(target) error { return raw(unix.SYS_IO_URING_SETUP, 1, 0) }},
	{"bpf", byFilter, perhaps, func(target) error { return raw(unix.SYS_BPF, 9999) }},
	{"perf events", byFilter, perhaps, func(target) error { return raw(unix.SYS_PERF_EVENT_OPEN) }},
	{"userfaultfd", byFilter, perhaps, func(target) error { return raw(unix.SYS_USERFAULTFD, 1) }},
	{"fanotify", byFilter, onlyRoot, func(target) error { return raw(unix.SYS_FANOTIFY_INIT, unix.FAN_CLASS_CONTENT, 0) }},
	{"a socket of the host's kernel", byFilter, perhaps, func(target) error {
		fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}},
	{"turn address randomization off", byFilter, everyUser, func(target) error { return raw(unix.SYS_PERSONALITY, 0x0040000) }},

	{"set the clock", byFilter, everyUser, func(target) error { return raw(unix.SYS_CLOCK_SETTIME, ^uintptr(0)) }},
	{"execute a set-user-ID program", byNoGain, perhaps, func(t target) error { return setuid(t.setuid) }},
	{"open files without end", byKernel, perhaps, func(target) error {
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			return err
		}
		if limit.Cur > 1<<16 {
			limit.Cur = 1 << 16 // the same limit, reached earlier
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
				return err
			}
		}
		var fds []int
		for {
			fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				for _, fd := range fds {
					unix.Close(fd)
				}
				return err
			}
			fds = append(fds, fd)
		}
	}},
}

// setuid executes a set-user-ID program, which waits for its input, and looks at its user.
func setuid(program string) error {
	if program == "" {
		return errors.New("there is no such program")
	}
	c := exec.Command(program)
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return err
	}
	defer c.Wait()
	defer in.Close()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
	if err != nil {
		return err
	}
	_, uids, _ := strings.Cut(string(status), "Uid:\t")
	if strings.Fields(uids)[1] == strconv.Itoa(os.Getuid()) {
		return errors.New("it has the same user")
	}
	return nil
}

// climbEnv makes the test binary climb out of a changed root, to the folder it names.
const climbEnv = "PROCESS_TEST_CLIMB"

// climb never returns, if this process was started to climb.
func climb() {
	to := os.Getenv(climbEnv)
	if to == "" {
		return
	}
	_ = os.Mkdir("hole", 0o700)
	err := unix.Chroot("hole")
	for range 50 {
		if err == nil {
			err = unix.Chdir("..")
		}
	}
	if err == nil {
		err = unix.Chroot(".")
	}
	if err == nil {
		err = open(unix.O_RDONLY, to+"/secret")
	}
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// attackFromInside runs all attacks, if this process is the attacker.
func attackFromInside() {
	text, found := os.LookupEnv(attackEnv)
	if !found {
		return
	}
	var t target
	part := strings.Split(text, "|")
	t.outside, t.socket, t.setuid = part[0], part[1], part[2]
	t.stranger, _ = strconv.Atoi(part[3])
	t.records = part[4]
	if _, err := os.Stat(t.setuid); err != nil && t.setuid != "" {
		t.setuid = "/attack/setuid"
	}
	for _, a := range attacks {
		if err := a.try(t); err != nil {
			var errno unix.Errno
			if errors.As(err, &errno) {
				err = errors.New(unix.ErrnoName(errno))
			}
			fmt.Printf("%s: held by %v\n", a.name, strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Printf("%s: ESCAPED\n", a.name)
		}
	}
	fmt.Println("done")
	os.Exit(0)
}
