// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/doze"
	"github.com/keelson-dev/keelson/runtime/process/internal/lookpath"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
	"github.com/keelson-dev/keelson/runtime/process/internal/stage"
)

// exitReserve is the disk space reserved for exit.json: a message of 4096 bytes, twice that for
// JSON escapes, and the other fields.
const exitReserve = 12 << 10

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

// errCannotRun is an error that is the container's own: its program cannot be executed. A next try
// would fail in the same way.
type errCannotRun struct{ error }

func (e errCannotRun) Unwrap() error { return e.error }

// start starts the container and returns the PID. After an error no process runs and pid.json is
// removed. After an errCannotRun the container has exited. Otherwise its state is created as before.
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
		return 0, errors.Join(err, s.fail(err), s.dir.Remove(record.ProcessFile))
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
	signal.Notify(s.other, others...)
}

// others are signals that end a process and are not meant for a shim.
var others = []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGXFSZ}

// fail records the end of a container whose program cannot be executed.
func (s *shim) fail(cause error) error {
	if _, own := errors.AsType[errCannotRun](cause); !own {
		return nil
	}
	message := clip(strings.ToValidUTF8(cause.Error(), "\uFFFD"), maxMessage)
	return record.WriteDurable(s.dir, record.ExitFile, record.Exit{Code: 128, Reason: "StartError", Message: message, FinishedAt: time.Now()})
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
	record.Reserve(s.dir, record.ExitFile, exitReserve)
	return record.Write(s.dir, record.ProcessFile, s.self)
}

// spawn opens the log and executes the command.
func (s *shim) spawn() error {
	programs, err := s.programs()
	if err != nil {
		return errCannotRun{err}
	}
	if s.log, err = openLog(&s.spec); err != nil {
		return err
	}
	return s.exec(programs)
}

// programs returns the paths of the command's program. In a root file system of its own the
// container finds the program itself.
func (s *shim) programs() ([]string, error) {
	if s.spec.Root != nil {
		return stage.Candidates(s.spec.Program(), s.spec.Env), nil
	}
	info, err := os.Stat(s.spec.Dir)
	if err != nil {
		return nil, fmt.Errorf("working directory: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("working directory: %s is not a directory", s.spec.Dir)
	}
	path, err := lookpath.Find(s.spec.Program(), s.spec.Dir, s.spec.Env)
	return []string{path}, err
}

// exec starts the main process with pipes to the log, and records the process.
func (s *shim) exec(programs []string) error {
	outR, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return err
	}
	var p *os.Process
	doze.Unblocked(func() {
		p, err = stage.Start(stage.Command{
			Programs: programs, Args: s.spec.Args, Env: s.spec.Env, Dir: s.spec.Dir,
			Files: [3]*os.File{nil, outW, errW}, Walls: s.spec.Walls,
		})
	})
	_, _ = outW.Close(), errW.Close()
	if err != nil {
		if bare := (*fs.PathError)(nil); errors.As(err, &bare) {
			err = bare.Err
		}
		return ownFault(fmt.Errorf("command %q: %w", s.spec.Args[0], err))
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

// ownFault returns err as an errCannotRun, unless the cause is a machine that is short of memory,
// processes or files, or a program that is being written.
func ownFault(err error) error {
	for _, passing := range []error{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ETXTBSY} {
		if errors.Is(err, passing) {
			return err
		}
	}
	return errCannotRun{err}
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
		keep = maxTail // the log's end may become the termination message
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
