// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/lookpath"
	"github.com/keelson-dev/keelson/runtime/process/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// exitReserve is the disk space set aside for exit.json: a message of 4096
// bytes, twice over for what JSON escapes, and the rest.
const exitReserve = 12 << 10

// shim is one container's. Only the thread of run uses it.
type shim struct {
	dir   *os.Root
	spec  record.Spec
	self  record.Process
	main  int // PID of the container's main process, and of its group and session
	log   *criLog
	dead  chan os.Signal // SIGCHLD
	asked chan os.Signal // SIGTERM: stop; SIGUSR1: kill
}

// start starts the container and returns its PID. When it fails nothing runs
// and pid.json is gone, so that the container is as it was: created.
func (s *shim) start() (int, error) {
	var err error
	if s.spec, err = record.Read[record.Spec](s.dir, record.SpecFile); err != nil {
		return 0, err
	}
	if len(s.spec.Args) == 0 {
		return 0, errors.New("the command is empty")
	}
	// Before anything that could be signalled. Notify rather than Ignore: what is
	// ignored would be inherited. The other signals are for whoever sends them to
	// everybody (a shutdown); a shim goes when its container has gone.
	s.dead = make(chan os.Signal, 1)
	s.asked = make(chan os.Signal, 8)
	signal.Notify(s.dead, unix.SIGCHLD)
	signal.Notify(s.asked, unix.SIGTERM, unix.SIGUSR1)
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGXFSZ)

	if err := prepare(s.spec); err != nil {
		return 0, err
	}
	if err := s.introduce(); err != nil {
		return 0, err
	}
	err = s.spawn()
	if err != nil {
		return 0, errors.Join(err, s.dir.Remove(record.ProcessFile))
	}
	return s.main, nil
}

// introduce records that a container is being started by this process. Whoever
// finds this record, no exit and nobody alive knows that something may have run.
func (s *shim) introduce() error {
	boot, err := proc.BootID()
	if err != nil {
		return err
	}
	me, err := proc.Lookup(os.Getpid())
	if err != nil {
		return err
	}
	s.self = record.Process{BootID: boot, Shim: me.Ref}
	record.Reserve(s.dir, record.ExitFile, exitReserve)
	return record.Write(s.dir, record.ProcessFile, s.self)
}

// spawn opens the log and executes the command.
func (s *shim) spawn() error {
	info, err := os.Stat(s.spec.Dir)
	if err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("working directory: %s is not a directory", s.spec.Dir)
	}
	path, err := lookpath.Find(s.spec.Program(), s.spec.Dir, s.spec.Env)
	if err != nil {
		return err
	}
	log, err := openLog(&s.spec)
	if err != nil {
		return err
	}
	keep := 0
	if s.spec.FallbackToLogs {
		keep = maxTail // it may become the termination message
	}
	s.log = newCRILog(log, keep)
	return s.exec(path)
}

// exec starts the process with pipes to the log, and records it.
func (s *shim) exec(path string) error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return err
	}
	p, err := os.StartProcess(path, s.spec.Args, &os.ProcAttr{
		Dir: s.spec.Dir, Env: s.spec.Env,
		Files: []*os.File{null, outW, errW}, Sys: containerAttr(),
	})
	_, _, _ = null.Close(), outW.Close(), errW.Close()
	if err != nil {
		if bare := (*fs.PathError)(nil); errors.As(err, &bare) {
			err = bare.Err
		}
		return fmt.Errorf("command %q: %w", s.spec.Args[0], err)
	}
	s.main = p.Pid
	_ = p.Release() // supervise waits for all children alike
	s.log.copy("stdout", outR)
	s.log.copy("stderr", errR)

	s.self.StartedAt = time.Now()
	info, err := proc.Lookup(s.main)
	if err == nil {
		s.self.Main = info.Ref
		err = record.Write(s.dir, record.ProcessFile, s.self)
	}
	if err != nil {
		// Unrecorded it must not run.
		return errors.Join(fmt.Errorf("record the process: %w", err), s.killAll())
	}
	return nil
}

// openLog opens a container's log; no path, no log.
func openLog(spec *record.Spec) (io.Writer, error) {
	if spec.LogPath == "" {
		return io.Discard, nil
	}
	l := &logFile{
		path: spec.LogPath, maxSize: spec.MaxLogSize, maxFiles: spec.MaxLogFiles,
		disk: realDisk{}, notes: os.Stderr, // a file in the container's folder
	}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return l, nil
}
