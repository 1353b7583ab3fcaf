// SPDX-License-Identifier: Apache-2.0

//go:build !noseccomp

package stage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/doze"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
	"github.com/keelson-dev/keelson/runtime/process/internal/tiny"
)

// Holder is a shim to be, which dozes from the start.
type Holder struct {
	Args, Env []string
	Dir       string
	Files     [record.BornFDs]*os.File // by number
	// Stop is the stop signal of the container. 0: the holder cannot end the container itself.
	Stop unix.Signal
}

// Birth is a start under way.
type Birth struct {
	Holder *os.Process
	stage  *stage
	hear   *os.File // reports
	begin  *os.File // is written to when the process may execute its program
}

// The descriptors that a holder has during the start, beside those of Holder.
const (
	tableFD = record.BornFDs + iota // the stage
	tellFD                          // for reports
	beginFD                         // the other end of Birth.begin
	passedFD
	allFDs = passedFD + 4 // the files of the command and the rules of Landlock
)

// A holder maps the stage here during the start. The rest of its memory is near the addresses of
// package tiny, and at the end.
const (
	tableAddress = 0x10000000
	tableSize    = 4 << 20 // the arguments and the environment of a program are shorter
)

// holderProgram is a program of holders.
type holderProgram struct {
	file *os.File
	wait uintptr // the address of the step that waits
}

// holderPrograms are the programs by Holder.Stop.
var holderPrograms struct {
	sync.Mutex
	by map[unix.Signal]holderProgram
}

// programFor returns the program of all holders with a stop signal.
func programFor(stop unix.Signal) (holderProgram, error) {
	holderPrograms.Lock()
	defer holderPrograms.Unlock()
	if program, ok := holderPrograms.by[stop]; ok {
		return program, nil
	}
	program, err := newHolderProgram(stop)
	if err == nil && holderPrograms.by == nil {
		holderPrograms.by = map[unix.Signal]holderProgram{}
	}
	if err == nil {
		holderPrograms.by[stop] = program
	}
	return program, err
}

func newHolderProgram(stop unix.Signal) (program holderProgram, err error) {
	var p tiny.Program
	end, wait := p.Label(), p.Label()
	p.Call(tiny.Fails, end, unix.SYS_PRCTL, tiny.N(unix.PR_SET_CHILD_SUBREAPER), tiny.N(1))
	doze.Name(&p, record.ShimName)
	p.Call(tiny.Follow, 0, unix.SYS_CLOSE_RANGE, tiny.N(allFDs), tiny.N(uint32(1<<32-1)))
	p.Call(tiny.Fails, end, unix.SYS_MMAP, tiny.N(tableAddress), tiny.N(tableSize), tiny.N(unix.PROT_READ|unix.PROT_WRITE),
		tiny.N(unix.MAP_PRIVATE|unix.MAP_FIXED_NOREPLACE), tiny.N(tableFD), tiny.N(0))
	p.Call(tiny.Jump, p.Elsewhere(tableAddress), unix.SYS_CLOSE, tiny.N(tableFD))
	p.Place(wait)
	p.Call(tiny.Follow, 0, unix.SYS_MUNMAP, tiny.N(tableAddress), tiny.N(tableSize))
	p.Call(tiny.Follow, 0, unix.SYS_CLOSE_RANGE, tiny.N(record.BornFDs), tiny.N(uint32(1<<32-1)))
	ignore := tiny.Values(&p, []uint64{1, 0, 0, 0}) // a struct sigaction with SIG_IGN
	for _, sig := range record.EndSignals {
		p.Call(tiny.Follow, 0, unix.SYS_RT_SIGACTION, tiny.N(uintptr(sig)), ignore, tiny.N(0), tiny.N(8))
	}
	var ending *doze.End
	if stop != 0 {
		ending = &doze.End{Main: record.MainFD, Statement: record.StatementFD, Report: record.ReportFD,
			Outputs: []int{record.StdoutFD, record.StderrFD}, Stop: stop}
	}
	doze.Sleep(&p, record.ProgramFD, []int{record.SignalFD, record.StdoutFD, record.StderrFD}, ending)
	p.Place(end)
	p.Call(tiny.Jump, end, unix.SYS_EXIT_GROUP, tiny.N(1))
	image, err := tiny.Image(&p)
	if err != nil {
		return program, err
	}
	fd, err := tiny.File(record.ShimName, image)
	if err != nil {
		return program, err
	}
	defer unix.Close(fd)
	// Above the descriptors of a holder, because the child that executes it has both.
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 4*allFDs)
	if err != nil {
		return program, err
	}
	program.file, program.wait = os.NewFile(uintptr(high), record.ShimName), tiny.InImage(&p, wait)
	return program, nil
}

// Hold starts a holder, which makes the process of a command as Start does. errors.ErrUnsupported is
// the error where there are no tiny programs. The process waits before it executes its program, see
// Await and Begin. The caller closes the Birth.
func Hold(c Command, h Holder) (*Birth, error) {
	if root := c.Walls.Root; root != nil && (root.Network != nil || root.MapsIDs()) { // a process between would be the holder's child
		return nil, errors.ErrUnsupported
	}
	program, err := programFor(h.Stop)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	b, passed, err := prepareBirth(c, program.wait)
	defer func() {
		for _, f := range passed {
			_ = f.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	doze.Blocked(func() {
		b.Holder, err = os.StartProcess(fmt.Sprintf("/proc/self/fd/%d", program.file.Fd()), h.Args, &os.ProcAttr{
			Dir: h.Dir, Env: h.Env, Files: append(h.Files[:], passed...), Sys: &syscall.SysProcAttr{Setsid: true},
		})
	})
	if err != nil {
		b.Close()
		// The system may forbid to execute memory.
		return nil, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return b, nil
}

// prepareBirth returns a start without a holder, and the descriptors of tableFD and above.
func prepareBirth(c Command, wait uintptr) (b *Birth, passed []*os.File, err error) {
	hear, tell, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	until, begin, err := os.Pipe()
	b = &Birth{stage: newStage(), hear: hear, begin: begin}
	passed = []*os.File{nil, tell, until}
	if err == nil {
		err = b.prepare(&c, wait, func(f *os.File) (int, error) {
			fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
			if err != nil {
				return -1, err
			}
			passed = append(passed, os.NewFile(uintptr(fd), f.Name()))
			return tableFD + len(passed) - 1, nil
		})
	}
	if err == nil {
		passed[0], err = b.table()
	}
	if err != nil {
		b.Close()
	}
	return b, passed, err
}

// prepare adds all calls of the holder and of its child, the process of the command.
func (b *Birth) prepare(c *Command, wait uintptr, pass func(*os.File) (int, error)) error {
	s := b.stage
	flags := uintptr(unix.SIGCHLD)
	if Built && c.Walls.Root != nil {
		flags |= namespaces(c.Walls.Root)
	}
	s.clone(flags)
	s.ready = func() {
		s.add(must, "signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, s.Put(make([]byte, 8)), 0, 8) // none is blocked
		s.add(may, "", unix.SYS_WRITE, tellFD, tiny.Values(&s.Program, []uintptr{lives, 0}), 2*wordSize)
		s.add(tiny.Empty, "begin", unix.SYS_READ, beginFD, s.Put(make([]byte, 1)), 1)
	}
	if err := s.prepare(c, pass); err != nil {
		return err
	}
	s.end(tiny.N(uintptr(tiny.Failure)), tiny.N(record.ReportFD), tiny.N(tellFD))
	s.Place(s.split) // the holder
	s.add(may, "", unix.SYS_WRITE, tellFD, s.made.Pair(), 2*wordSize)
	main := s.add(may, "", unix.SYS_PIDFD_OPEN, s.made, 0)
	s.add(may, "", unix.SYS_DUP3, main, record.MainFD, unix.O_CLOEXEC)
	s.Call(tiny.Jump, s.Elsewhere(wait), unix.SYS_CLOSE, tiny.N(tellFD))
	return s.err
}

// table returns memory with the stage.
func (b *Birth) table() (*os.File, error) {
	s := b.stage
	size := s.Len() * int(tiny.StepSize)
	steps := make([]tiny.Step, s.Len()+s.Size()/int(tiny.StepSize)+1) // the last ones are the memory
	raw := tiny.Raw(steps)[:size+s.Size()]
	s.Assemble(steps, tableAddress, raw[size:], tableAddress+uintptr(size))
	if len(raw) > tableSize {
		return nil, fmt.Errorf("%w: %d bytes", errors.ErrUnsupported, len(raw))
	}
	fd, err := unix.MemfdCreate("keelson-start", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "start")
	if _, err := f.Write(raw); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Close closes what is left of a start. The holder goes on.
func (b *Birth) Close() {
	_ = b.hear.Close()
	_ = b.begin.Close()
}

// Await waits until the process has prepared everything but the last walls, and returns its PID.
func (b *Birth) Await(until time.Time) (pid int, err error) {
	if err := b.hear.SetReadDeadline(until); err != nil {
		return 0, err
	}
	for ready := false; pid == 0 || !ready; {
		what, value, err := b.report()
		switch {
		case err != nil:
			return 0, err
		case what == made:
			pid = int(value)
		case what == lives:
			ready = true
		default:
			return 0, b.stage.failure(tableAddress, what, value)
		}
		if pid < 0 {
			return 0, fmt.Errorf("make namespaces: %w", syscall.Errno(-pid))
		}
	}
	return pid, nil
}

// Begin makes the process execute its program, and waits until this has happened or has failed.
func (b *Birth) Begin() error {
	_, err := b.begin.Write([]byte{0})
	if err != nil {
		return err
	}
	switch what, value, err := b.report(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	default:
		return b.stage.failure(tableAddress, what, value)
	}
}

// report reads a report.
func (b *Birth) report() (what, value uintptr, err error) {
	raw := make([]byte, 2*wordSize)
	if _, err := io.ReadFull(b.hear, raw); err != nil {
		return 0, 0, err
	}
	what, value = twoWords(raw)
	return what, value, nil
}
