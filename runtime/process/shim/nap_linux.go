// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/doze"
	"github.com/keelson-dev/keelson/runtime/process/internal/launch"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
	"github.com/keelson-dev/keelson/runtime/process/internal/stage"
)

// A shim dozes after this time without output. Each nap that is shorter than worthwhile doubles the
// time, because the start of a program of Go takes some milliseconds.
const (
	leastPatience = time.Second
	worthwhile    = 30 * time.Second
)

// napName is the name of the memory with a nap.
const napName = "keelson-nap"

// nap is the state of a shim while it dozes, beside the Statement.
type nap struct {
	Begin    time.Time     `json:"begin"`
	Patience time.Duration `json:"patience"`
	Said     int           `json:"said"` // the descriptor of the Statement
	Report   int           `json:"report"`
	Log      napLog        `json:"log"`
	Streams  []napStream   `json:"streams"`
}

// napLog is the state of a log.
type napLog struct {
	FD    int    `json:"fd"`   // -1: no file
	Tail  []byte `json:"tail"` // criLog.mu.last
	Torn  bool   `json:"torn,omitempty"`
	Noted bool   `json:"noted,omitempty"`
}

// napStream is the state of a stream.
type napStream struct {
	Name string `json:"name"`
	FD   int    `json:"fd"` // -1: the stream has ended
	Part []byte `json:"part,omitempty"`
	Open bool   `json:"open,omitempty"`
}

// doze replaces this process's program by one of a few KiB until there is something to do. doze
// returns only if the process stays awake, and reports whether another attempt makes sense.
func (s *shim) doze() (again bool) {
	if !s.light || s.said == nil {
		return false
	}
	s.log.pause()
	defer s.log.resume()
	// From here on these signals stay pending. One that has arrived is in the channel.
	signal.Stop(s.asked)
	defer signal.Notify(s.asked, record.StopSignal, record.KillSignal)
	if len(s.asked) > 0 || len(s.dead) > 0 {
		return true
	}
	signal.Ignore(others()...)
	defer signal.Notify(s.other, others()...)
	if err := s.fallAsleep(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		fmt.Fprintln(os.Stderr, "the shim stays awake:", err)
	}
	return false
}

func (s *shim) fallAsleep() error {
	n := nap{Begin: time.Now(), Patience: s.patience, Said: inherit(s.said), Log: napLog{FD: -1, Tail: []byte(s.log.tail())}}
	// A pidfd tells the end even if this process has already taken the SIGCHLD.
	main, err := unix.PidfdOpen(s.main, 0)
	if err != nil {
		return err
	}
	defer unix.Close(main)
	if _, err := unix.FcntlInt(uintptr(main), unix.F_SETFD, 0); err != nil {
		return err
	}
	report, err := unix.MemfdCreate(reportName, 0)
	if err != nil {
		return err
	}
	defer unix.Close(report)
	n.Report = report
	wake := []int{main}
	if l := s.log.file; l != nil {
		file, ok := l.file.(*os.File)
		if !ok {
			return errors.New("the log is not a file")
		}
		n.Log.FD, n.Log.Torn, n.Log.Noted = inherit(file), l.torn, l.noted
	}
	for _, st := range s.log.streams {
		fd := -1
		if !st.ended {
			fd = inherit(st.from)
			wake = append(wake, fd)
		}
		n.Streams = append(n.Streams, napStream{Name: st.stream, FD: fd, Part: st.part, Open: st.open})
	}
	memory, err := keep(napName, n)
	if err != nil {
		return err
	}
	defer memory.Close()
	for _, fd := range []uintptr{record.LockFD, record.NameFD} {
		_, _ = unix.FcntlInt(fd, unix.F_SETFD, 0)
	}
	env := append(os.Environ(), record.NapEnv+"="+strconv.Itoa(inherit(memory)))
	var end *doze.End
	if !s.spec.FallbackToLogs && !n.owesOutput() {
		end = &doze.End{Main: main, Statement: n.Said, Report: n.Report, Outputs: wake[1:], Stop: unix.Signal(s.spec.StopSignal)}
	}
	return doze.Exec(record.ShimName, env, wake, end, unix.SIGCHLD, record.StopSignal, record.KillSignal)
}

// reportName is the name of the memory for the report of a nap.
const reportName = "keelson-report"

// owesOutput reports whether the log is to be completed after the container's end.
func (n *nap) owesOutput() bool {
	return n.Log.Torn || slices.ContainsFunc(n.Streams, func(st napStream) bool { return st.Open || len(st.Part) > 0 })
}

// inherit makes the program after this one inherit a descriptor.
func inherit(f *os.File) (number int) {
	number = -1
	conn, err := f.SyscallConn()
	if err != nil {
		return number
	}
	_ = conn.Control(func(fd uintptr) {
		if _, err := unix.FcntlInt(fd, unix.F_SETFD, 0); err == nil {
			number = int(fd)
		}
	})
	return number
}

// born is the first nap of a shim that dozes from the start.
var born = nap{
	Said: record.StatementFD, Report: record.ReportFD, Log: napLog{FD: record.LogFD},
	Streams: []napStream{{Name: "stdout", FD: record.StdoutFD}, {Name: "stderr", FD: record.StderrFD}},
}

// wake returns the shim after a nap, or nil in a process that has not dozed.
func wake() (*shim, error) {
	fd := os.Getenv(record.NapEnv)
	if fd == "" {
		return nil, nil
	}
	if err := os.Unsetenv(record.NapEnv); err != nil {
		return nil, err
	}
	n := born
	var err error
	if fd == record.Born {
		err = started()
	} else {
		n, err = readMemory[nap](fd)
	}
	if err != nil {
		return nil, fmt.Errorf("wake up: %w", err)
	}
	said, err := readMemory[record.Statement](strconv.Itoa(n.Said))
	if err != nil {
		return nil, fmt.Errorf("wake up: %w", err)
	}
	s := &shim{
		spec: said.Spec, self: said.Process, main: said.Process.Main.PID, said: os.NewFile(uintptr(n.Said), record.StatementName),
		log: newLog(&said.Spec), patience: leastPatience, light: true,
	}
	if end, ok := readEnd(n.Report); ok {
		s.ended = ended{End: end, reaped: true}
	}
	if time.Since(n.Begin) < worthwhile {
		s.patience = min(2*n.Patience, 2*worthwhile)
	}
	kept := []int{n.Said}
	s.log.mu.last = n.Log.Tail
	if l := s.log.file; l != nil && n.Log.FD >= 0 {
		kept = append(kept, n.Log.FD)
		file := os.NewFile(uintptr(n.Log.FD), l.path)
		info, err := file.Stat()
		if err != nil {
			return nil, fmt.Errorf("wake up: log: %w", err)
		}
		l.turnTo(file, info)
		l.torn, l.noted = n.Log.Torn, n.Log.Noted
	}
	for _, st := range n.Streams {
		restored := &stream{entries: entries{stream: st.Name, part: st.Part, open: st.Open}, ended: st.FD < 0}
		if st.FD >= 0 {
			kept = append(kept, st.FD)
			restored.from = os.NewFile(uintptr(st.FD), st.Name)
		}
		s.log.streams = append(s.log.streams, restored)
	}
	tidyDescriptors(kept...)
	if s.dir, err = os.OpenRoot("."); err != nil {
		return nil, fmt.Errorf("wake up: %w", err)
	}
	s.listen()
	select {
	case s.dead <- unix.SIGCHLD: // the runtime may have dropped the signal that has woken this process
	default:
	}
	if err := prepare(); err != nil {
		return nil, err
	}
	s.log.resume()
	return s, nil
}

// errUnstarted is the error of a start that an agent has begun and not completed.
var errUnstarted = errors.New("the start was not completed")

// started returns nil if the start of this process's container was completed. If the start has failed
// and the agent has not recorded it, started does.
func started() error {
	report, err := os.ReadFile(descriptors + "/" + strconv.Itoa(record.ReportFD))
	if err != nil {
		return err
	}
	seals, err := unix.FcntlInt(record.StatementFD, unix.F_GET_SEALS, 0)
	switch {
	case err != nil:
		return err
	case seals&unix.F_SEAL_WRITE == 0 && len(report) == 0:
		return errUnstarted // the end of this process ends the main process
	case len(report) == 0 || len(report) == record.EndSize:
		return nil
	}
	dir, err := os.OpenRoot(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	spec, err := record.Read[record.Spec](dir, record.SpecFile)
	if err != nil {
		return err
	}
	cause := errUnstarted
	if errno := stage.Errno(report); errno != 0 { // 0: the agent has ended
		cause = launch.Explain(&spec, errno)
	}
	return errors.Join(cause, launch.Failed(dir, cause))
}

// readEnd returns the end of the main process that the program of a nap has found.
func readEnd(fd int) (record.End, bool) {
	raw, err := os.ReadFile(descriptors + "/" + strconv.Itoa(fd))
	if err != nil {
		return record.End{}, false
	}
	end, err := record.ParseEnd(raw)
	return end, err == nil
}

// readMemory reads the value in an inherited memory file.
func readMemory[T any](fd string) (v T, err error) {
	raw, err := os.ReadFile(descriptors + "/" + fd)
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	return v, err
}
