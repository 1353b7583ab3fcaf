// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/tiny"
)

// TestInterpretersAgree: fork does with a program what the instructions of package tiny do.
func TestInterpretersAgree(t *testing.T) {
	const nowhere = -1
	write := func(p *tiny.Program, text string) {
		p.Call(tiny.Follow, 0, unix.SYS_WRITE, tiny.N(1), p.Text(text), tiny.N(len(text)))
	}
	exit := func(p *tiny.Program) { p.Call(tiny.Follow, 0, unix.SYS_EXIT_GROUP, tiny.N(0)) }
	// Each program says a at the following call, and b and the noted error at the target.
	branch := func(next tiny.Next, number uintptr, args func(p *tiny.Program) []tiny.Arg) func(p *tiny.Program, failed tiny.Arg) {
		return func(p *tiny.Program, failed tiny.Arg) {
			target := p.Label()
			p.Call(next, target, number, args(p)...)
			write(p, "a")
			p.Call(tiny.Follow, 0, unix.SYS_WRITE, tiny.N(1), failed, tiny.N(2*wordSize))
			exit(p)
			p.Place(target)
			write(p, "b")
			p.Call(tiny.Follow, 0, unix.SYS_WRITE, tiny.N(1), failed, tiny.N(2*wordSize))
			exit(p)
		}
	}
	dup := func(fd int) func(*tiny.Program) []tiny.Arg {
		return func(*tiny.Program) []tiny.Arg { return []tiny.Arg{tiny.N(fd)} }
	}
	lists := func(p *tiny.Program, name string) []tiny.Arg {
		return []tiny.Arg{p.Text(name), p.List([]string{name, "x", "y"}), p.List(nil)}
	}
	programs := map[string]func(p *tiny.Program, failed tiny.Arg){
		"jump": branch(tiny.Jump, unix.SYS_DUP, dup(nowhere)),
		"the result of a call is an argument": func(p *tiny.Program, _ tiny.Arg) {
			fd := p.Call(tiny.Follow, 0, unix.SYS_DUP, tiny.N(1))
			p.Call(tiny.Follow, 0, unix.SYS_WRITE, fd, p.Text("text"), tiny.N(4))
			exit(p)
		},
		"pair": func(p *tiny.Program, _ tiny.Arg) {
			r := p.Call(tiny.Follow, 0, unix.SYS_PRCTL, tiny.N(unix.PR_GET_DUMPABLE), tiny.N(0), tiny.N(0), tiny.N(0), tiny.N(0), tiny.N(77))
			p.Call(tiny.Follow, 0, unix.SYS_WRITE, tiny.N(1), r.Pair(), tiny.N(2*wordSize))
			exit(p)
		},
		"the second program": func(p *tiny.Program, _ tiny.Arg) {
			end := p.Label()
			p.Call(tiny.Execute, end, unix.SYS_EXECVE, lists(p, "/no/such/program")...)
			p.Call(tiny.Execute, end, unix.SYS_EXECVE, lists(p, "/bin/echo")...)
			p.Place(end)
			exit(p)
		},
		"no program": func(p *tiny.Program, failed tiny.Arg) {
			for _, name := range []string{"/no/such/program", "/etc/passwd", "/etc/passwd/x"} {
				branch(tiny.Execute, unix.SYS_EXECVE, func(p *tiny.Program) []tiny.Arg { return lists(p, name) })(p, failed)
			}
		},
	}
	for name, next := range map[string]tiny.Next{"follow": tiny.Follow, "fails": tiny.Fails, "empty": tiny.Empty, "parent": tiny.Parent} {
		for _, fd := range []int{1, nowhere} {
			programs[fmt.Sprint(name, fd)] = branch(next, unix.SYS_DUP, dup(fd))
		}
		programs[name+" after 0"] = branch(next, unix.SYS_SCHED_YIELD, dup(0))
	}
	for _, file := range []string{"/", "/etc/passwd", "/no/such", "/etc/passwd/x", "/bin/true/"} {
		programs["execute "+file] = branch(tiny.Execute, unix.SYS_EXECVE, func(p *tiny.Program) []tiny.Arg { return lists(p, file) })
	}
	for name, add := range programs {
		t.Run(name, func(t *testing.T) { assert.Equal(t, byFork(t, add), byInstructions(t, add)) })
	}
}

// byInstructions returns the output of a program.
func byInstructions(t *testing.T, add func(*tiny.Program, tiny.Arg)) string {
	p := &tiny.Program{}
	add(p, tiny.N(uintptr(tiny.Failure)))
	image, err := tiny.Image(p)
	require.NoError(t, err)
	fd, err := tiny.File("program", image)
	require.NoError(t, err)
	defer unix.Close(fd)
	out, err := (&exec.Cmd{Path: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd), Args: []string{"a", "b"}}).Output()
	require.NoError(t, err)
	return relative(out, tiny.FirstStep)
}

// byFork returns the output of a program that a copy of this process does.
func byFork(t *testing.T, add func(*tiny.Program, tiny.Arg)) string {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	c, err := newChild()
	require.NoError(t, err)
	defer c.close()
	p, failed := &tiny.Program{}, c.failed
	p.Call(tiny.Follow, 0, unix.SYS_DUP3, tiny.N(w.Fd()), tiny.N(1), tiny.N(0))
	add(p, tiny.N(uintptr(unsafe.Pointer(failed))))
	steps, memory := make([]tiny.Step, p.Len()), make([]byte, p.Size()+1)
	at := uintptr(unsafe.Pointer(&steps[0]))
	p.Assemble(steps, at, memory, uintptr(unsafe.Pointer(&memory[0])))
	pid, errno := fork(uintptr(unix.SIGCHLD), steps, at, failed)
	require.Zero(t, errno)
	require.NoError(t, w.Close())
	out, err := io.ReadAll(r)
	require.NoError(t, err)
	await(int(pid))
	return relative(out, at+tiny.StepSize)
}

// relative replaces the address of a noted step by its number.
func relative(out []byte, first uintptr) string {
	if len(out) != 1+2*wordSize {
		return string(out)
	}
	step, errno := twoWords(out[1:])
	if step != 0 {
		step = (step - first) / tiny.StepSize
	}
	return fmt.Sprint(string(out[:1]), step, errno)
}
