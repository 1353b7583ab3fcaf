// SPDX-License-Identifier: Apache-2.0

//go:build !noseccomp

package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/doze"
	"github.com/keelson-dev/keelson/runtime/process/internal/launch"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
	"github.com/keelson-dev/keelson/runtime/process/internal/stage"
)

// inherited are descriptors that all shims share.
var inherited = sync.OnceValues(func() (files struct{ null, signals *os.File }, err error) {
	if files.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return files, err
	}
	fd, err := doze.Signals(unix.SIGCHLD, record.StopSignal, record.KillSignal)
	if err == nil {
		unix.CloseOnExec(fd)
		files.signals = os.NewFile(uintptr(fd), "signals")
	}
	return files, err
})

// bear starts a container whose shim dozes from the start: no program of Go starts. The error is
// errors.ErrUnsupported if this is not possible here, and nothing has happened.
func (r *Runtime) bear(in *instance, lock *record.Lock, spec *record.Spec) error {
	start := birth{dir: in.dir, spec: spec}
	defer start.close()
	err := r.conceive(&start, in, lock)
	if err == nil {
		err = start.begin()
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if err != nil {
		return errors.Join(err, start.abandon(err))
	}
	r.watch(in, start.process.Shim)
	return start.b.Holder.Release()
}

// birth is the start of a container whose shim dozes from the start.
type birth struct {
	dir       *os.Root
	spec      *record.Spec
	b         *stage.Birth // nil before the process of the shim exists
	statement *os.File
	process   record.Process
	opened    []*os.File
}

func (s *birth) close() {
	for _, f := range s.opened {
		_ = f.Close()
	}
	if s.b != nil {
		s.b.Close()
	}
}

// open adds a file that is closed with the birth.
func (s *birth) open(f *os.File, err error) (*os.File, error) {
	if err == nil {
		s.opened = append(s.opened, f)
	}
	return f, err
}

// pipe makes a pipe for output. The shim's end does not block, so that a shim can pause.
func (s *birth) pipe() (r, w *os.File, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(ends[0], true); err != nil {
		return nil, nil, errors.Join(err, unix.Close(ends[0]), unix.Close(ends[1]))
	}
	r, _ = s.open(os.NewFile(uintptr(ends[0]), "output"), nil)
	w, _ = s.open(os.NewFile(uintptr(ends[1]), "output"), nil)
	return r, w, nil
}

func (s *birth) memory(name string, flags int) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|flags)
	if err != nil {
		return nil, err
	}
	return s.open(os.NewFile(uintptr(fd), name), nil)
}

// conceive makes the process of the shim, which makes the main process. An error before that is the
// container's own only for a program that is not found.
func (r *Runtime) conceive(s *birth, in *instance, lock *record.Lock) error {
	shared, err := inherited()
	if err != nil {
		return err
	}
	c, err := launch.Command(s.spec)
	if err != nil {
		return err
	}
	h := stage.Holder{
		Args: []string{record.ShimName, in.path}, Dir: in.path,
		Env: append(shimEnvironment(), record.NapEnv+"="+record.Born),
	}
	if !s.spec.FallbackToLogs { // the end of the log is part of the exit
		h.Stop = unix.Signal(s.spec.StopSignal)
	}
	var files [record.BornFDs]*os.File
	files[0], files[1], files[record.LockFD], files[record.NameFD] = shared.null, shared.null, lock.File, lock.Name
	files[record.SignalFD], files[record.LogFD] = shared.signals, shared.null
	files[record.MainFD] = shared.null // until there is a main process
	c.Files[0] = shared.null
	if files[2], err = s.open(openShimLog(in)); err != nil {
		return err
	}
	path, err := r.shimProgram()
	if err != nil {
		return err
	}
	if files[record.ProgramFD], err = s.open(os.OpenFile(path, unix.O_PATH, 0)); err != nil {
		return fmt.Errorf("find the shim: %w", err)
	}
	if s.spec.LogPath != "" {
		if files[record.LogFD], err = s.open(launch.OpenLog(s.spec.LogPath)); err != nil {
			return fmt.Errorf("log: %w", err)
		}
	}
	if files[record.StdoutFD], c.Files[1], err = s.pipe(); err != nil {
		return err
	}
	if files[record.StderrFD], c.Files[2], err = s.pipe(); err != nil {
		return err
	}
	if s.statement, err = s.memory(record.StatementName, unix.MFD_ALLOW_SEALING); err != nil {
		return err
	}
	files[record.StatementFD] = s.statement
	if files[record.ReportFD], err = s.memory("keelson-report", 0); err != nil {
		return err
	}
	h.Files = files
	launch.Reserve(s.dir)
	if s.b, err = stage.Hold(c, h); err != nil {
		return fmt.Errorf("start the shim: %w", err)
	}
	return nil
}

// begin records the processes and makes the main process execute its program.
func (s *birth) begin() error {
	if err := s.record(); err != nil {
		return err
	}
	return s.explain(s.b.Begin())
}

// record waits for the main process, which is ready to execute its program then, and writes pid.json
// and the statement.
func (s *birth) record() error {
	pid, err := s.b.Await(time.Now().Add(startTime))
	if err != nil {
		return s.explain(err)
	}
	boot, err := proc.BootID()
	if err != nil {
		return err
	}
	main, err := proc.Lookup(pid)
	if err != nil {
		return errSilent
	}
	// The shim lives after the main process has asked for its own end with that of the shim.
	shim, err := proc.Lookup(s.b.Holder.Pid)
	if err != nil || shim.Zombie {
		return errSilent
	}
	s.process = record.Process{BootID: boot, Shim: shim.Ref, Main: main.Ref, StartedAt: time.Now()}
	if err := record.Write(s.dir, record.ProcessFile, s.process); err != nil {
		return fmt.Errorf("record the process: %w", err)
	}
	raw, err := json.Marshal(record.Statement{Spec: *s.spec, Process: s.process})
	if err == nil {
		_, err = s.statement.Write(raw)
	}
	if err == nil {
		_, err = unix.FcntlInt(s.statement.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		return fmt.Errorf("write the statement: %w", err)
	}
	return nil
}

// explain returns the error of the command.
func (s *birth) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the shim said nothing for %v", startTime)
	}
	if _, ok := errors.AsType[syscall.Errno](err); !ok {
		return errSilent // the shim, or the main process, was killed
	}
	return launch.Explain(s.spec, err)
}

// abandon ends the shim, and so the main process, and records the failed start.
func (s *birth) abandon(cause error) error {
	if s.b != nil {
		_ = s.b.Holder.Kill()
		_, _ = s.b.Holder.Wait()
	}
	return launch.Failed(s.dir, cause)
}
