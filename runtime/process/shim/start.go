// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/doze"
	"github.com/keelson-dev/keelson/runtime/process/internal/ending"
	"github.com/keelson-dev/keelson/runtime/process/internal/launch"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
	"github.com/keelson-dev/keelson/runtime/process/internal/stage"
)

// shim supervises one container. Only the thread of run uses a shim.
type shim struct {
	dir   *os.Root
	spec  record.Spec
	self  record.Process
	main  int // PID of the container's main process; also the number of group and session
	ended ended
	said  *os.File // the Statement; nil on systems without sealed memory
	log   *criLog
	dead  chan os.Signal // SIGCHLD
	asked chan os.Signal // record.StopSignal, record.KillSignal
	other chan os.Signal // signals that are ignored, for the time of the start

	patience time.Duration // the time without output before a nap
	light    bool          // this process may doze
}

// start starts the container and returns the PID. After an error no process runs and pid.json is
// removed. After a launch.ErrCannotRun the container has exited. Otherwise its state is created as before.
func (s *shim) start() (int, error) {
	var err error
	if s.spec, err = record.Read[record.Spec](s.dir, record.SpecFile); err != nil {
		return 0, err
	}
	if len(s.spec.Args) == 0 {
		return 0, errors.New("the command is empty")
	}
	s.listen()
	if err := prepare(); err != nil {
		return 0, err
	}
	if err := s.introduce(); err != nil {
		return 0, err
	}
	if err := s.spawn(); err != nil {
		return 0, errors.Join(err, launch.Failed(s.dir, err))
	}
	return s.main, nil
}

// listen handles signals. The handlers precede the first process that could be signalled. Ignore would
// be inherited by the container, Notify is not. A shutdown may send the other signals to all
// processes, and the shim must still outlive the container.
func (s *shim) listen() {
	s.dead = make(chan os.Signal, 1)
	s.asked = make(chan os.Signal, 8)
	s.other = make(chan os.Signal, 1)
	signal.Notify(s.dead, unix.SIGCHLD)
	signal.Notify(s.asked, record.StopSignal, record.KillSignal)
	signal.Notify(s.other, others()...)
}

// others returns record.EndSignals.
func others() (out []os.Signal) {
	for _, sig := range record.EndSignals {
		out = append(out, sig)
	}
	return out
}

// introduce records that this process is starting the container. An agent that finds this record,
// no exit record and no living shim concludes that the container may have run.
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
	launch.Reserve(s.dir)
	return record.Write(s.dir, record.ProcessFile, s.self)
}

// spawn opens the log, starts the main process with pipes to the log, and records the process.
func (s *shim) spawn() error {
	c, err := launch.Command(&s.spec)
	if err != nil {
		return err
	}
	if s.log, err = openLog(&s.spec); err != nil {
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
	c.Files = [3]*os.File{nil, outW, errW}
	var p *os.Process
	doze.Unblocked(func() { p, err = stage.Start(c) })
	_, _ = outW.Close(), errW.Close()
	if err != nil {
		return launch.Explain(&s.spec, err)
	}
	s.main = p.Pid
	_ = p.Release() // supervise waits for all children alike
	s.log.copy(&stream{entries: entries{stream: "stdout"}, from: outR})
	s.log.copy(&stream{entries: entries{stream: "stderr"}, from: errR})

	s.self.StartedAt = time.Now()
	info, err := proc.Lookup(s.main)
	if err == nil {
		s.self.Main = info.Ref
		err = record.Write(s.dir, record.ProcessFile, s.self)
	}
	if err != nil {
		// A process without a record must not run.
		return errors.Join(fmt.Errorf("record the process: %w", err), s.killAll())
	}
	// Without a statement, damaged records of this container cannot be restored.
	s.said, _ = keep(record.StatementName, record.Statement{Spec: s.spec, Process: s.self})
	return nil
}

// openLog opens a container's log. Without a path the output is discarded.
func openLog(spec *record.Spec) (*criLog, error) {
	l := newLog(spec)
	if l.file == nil {
		return l, nil
	}
	if err := l.file.open(); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return l, nil
}

// newLog returns a container's log whose file is not open.
func newLog(spec *record.Spec) *criLog {
	keep := 0
	if spec.FallbackToLogs {
		keep = ending.MaxTail // the log's end may become the termination message
	}
	if spec.LogPath == "" {
		return newCRILog(io.Discard, keep)
	}
	file := &logFile{
		path: spec.LogPath, maxSize: spec.MaxLogSize, maxFiles: spec.MaxLogFiles,
		disk: realDisk{}, notes: os.Stderr, // a file in the container's folder
	}
	l := newCRILog(file, keep)
	l.file = file
	return l
}
