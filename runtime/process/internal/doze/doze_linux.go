// SPDX-License-Identifier: Apache-2.0

package doze

import (
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/tiny"
)

// Exec replaces this process by a sleeper with the name, which executes this process's program again
// with the environment env when a descriptor of wake is readable, or has no writer any more, or when
// a signal of signals arrives. The program inherits every descriptor that is not close-on-exec, and
// two that Exec adds. The arguments are those of this process, and have to be two. If the children
// are to be killed with their parent, the caller is in the main thread.
//
// A sleeper blocks all signals and leaves them pending. When the program of Go starts, its runtime
// acts at once on pending signals that end a program (SIGTERM, SIGINT, SIGHUP, SIGQUIT), so the
// caller has to ignore these signals. Other signals stay pending until the program handles them, if
// this process was started by Blocked.
//
// With an End the sleeper does not execute the program if it can end the container itself.
//
// Exec returns only an error, after which the process is as before.
func Exec(name string, env []string, wake []int, end *End, signals ...unix.Signal) error {
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
	waits, err := Signals(signals...)
	if err != nil {
		return err
	}
	opened = append(opened, waits)
	if len(os.Args) != 2 {
		return errors.New("the number of arguments is not two")
	}
	var p tiny.Program
	Name(&p, name)
	Sleep(&p, program, append([]int{waits}, wake...), end)
	image, err := tiny.Image(&p)
	if err != nil {
		return err
	}
	fd, err := tiny.File(name, image)
	if err != nil {
		return err
	}
	opened = append(opened, fd)
	return fmt.Errorf("execute memory: %w", syscall.Exec(fmt.Sprintf("/proc/self/fd/%d", fd), os.Args, env))
}

// Signals returns a descriptor that is readable while a signal of these is pending. A process that
// inherits the descriptor waits for its own signals.
func Signals(signals ...unix.Signal) (fd int, err error) { return unix.Signalfd(-1, set(signals), 0) }

// Name adds a call that gives the process a name.
func Name(p *tiny.Program, name string) {
	p.Call(tiny.Follow, 0, unix.SYS_PRCTL, tiny.N(unix.PR_SET_NAME), p.Text(name))
}

// Sleep adds calls that wait for the descriptors of wake, and then execute the descriptor program
// with the arguments and the environment of the tiny program, unless end, which may be nil, has an
// answer. An execve that fails is tried again each second.
func Sleep(p *tiny.Program, program int, wake []int, end *End) {
	fds := make([]unix.PollFd, len(wake))
	for i, fd := range wake {
		fds[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	sleep, awake := p.Label(), p.Label()
	p.Place(sleep)
	p.Call(tiny.Follow, 0, unix.SYS_PPOLL, tiny.Values(p, fds), tiny.N(len(fds)), tiny.N(0), tiny.N(0))
	if end != nil {
		end.add(p, sleep, awake)
	}
	p.Place(awake)
	p.Call(tiny.Follow, 0, unix.SYS_EXECVEAT, tiny.N(program), p.Text(""), tiny.Load(tiny.Arguments), tiny.Load(tiny.Environment), tiny.N(unix.AT_EMPTY_PATH))
	p.Call(tiny.Jump, awake, unix.SYS_NANOSLEEP, tiny.Values(p, []unix.Timespec{{Sec: 1}}), tiny.N(0))
}
