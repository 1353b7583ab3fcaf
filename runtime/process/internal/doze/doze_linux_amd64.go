// SPDX-License-Identifier: Apache-2.0

package doze

import (
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exec replaces this process by a sleeper with the name, which executes this process's program again
// with the environment env when a descriptor of wake is readable, or has no writer any more, or when
// a signal of signals arrives. The program inherits every descriptor that is not close-on-exec, and
// two that Exec adds. The arguments are those of this process, and have to be two. If the children
// are to be killed with their parent, the caller is in the main thread.
//
// A sleeper blocks all signals and leaves them pending. Among these, the runtime of Go takes at once
// those that end a program (SIGTERM, SIGINT, SIGHUP, SIGQUIT), so the caller has to ignore them. The
// others stay pending until they are wanted, if this process was started by Blocked.
//
// Exec returns only an error, after which the process is as before.
func Exec(name string, env []string, wake []int, signals ...unix.Signal) error {
	var opened []int
	defer func() {
		for _, fd := range opened {
			_ = unix.Close(fd)
		}
	}()
	program, err := unix.Open("/proc/self/exe", unix.O_PATH, 0) // inherited
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	opened = append(opened, program)
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	var before unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, every(), &before); err != nil {
		return err
	}
	defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	waits, err := unix.Signalfd(-1, set(signals), 0) // inherited
	if err != nil {
		return err
	}
	opened = append(opened, waits)
	wake = append([]int{waits}, wake...)
	if len(os.Args) != 2 || len(wake) > maxWake {
		return errors.New("too many arguments or descriptors")
	}
	raw := image(name, program, wake)
	if raw == nil {
		return errors.ErrUnsupported
	}
	fd, err := executable(name)
	if err != nil {
		return err
	}
	opened = append(opened, fd)
	if _, err := unix.Pwrite(fd, raw, 0); err != nil {
		return err
	}
	return fmt.Errorf("execute memory: %w", syscall.Exec(fmt.Sprintf("/proc/self/fd/%d", fd), os.Args, env))
}

// executable makes memory that may be executed. Linux 6.3 has the flag, and may demand it.
func executable(name string) (fd int, err error) {
	fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	}
	return fd, err
}
