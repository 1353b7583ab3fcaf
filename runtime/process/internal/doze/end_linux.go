// SPDX-License-Identifier: Apache-2.0

//go:build !noseccomp

package doze

import (
	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
	"github.com/keelson-dev/keelson/runtime/process/internal/tiny"
)

// Of pidfd_send_signal and waitid; package unix has no names for them.
const (
	processGroup = 1 << 2 // PIDFD_SIGNAL_PROCESS_GROUP
	byPidfd      = 3      // P_PIDFD
)

// ending adds the calls of an End to a program.
type ending struct {
	*End
	*tiny.Program
	main, report, cwd tiny.Arg
	noWait            tiny.Arg // a timespec of 0
	end               tiny.Arg // a record.End
	sleep, awake      tiny.Label
}

// add adds the calls between a sleep and the program of Go. Each of them goes to awake if the program of
// Go has to act.
func (e *End) add(p *tiny.Program, sleep, awake tiny.Label) {
	s := &ending{
		End: e, Program: p, sleep: sleep, awake: awake,
		main: tiny.N(e.Main), report: tiny.N(e.Report), cwd: tiny.N(unix.AT_FDCWD),
		noWait: tiny.Values(p, []unix.Timespec{{}}), end: p.Put(make([]byte, record.EndSize)),
	}
	s.passOn(record.KillSignal, unix.SIGKILL)
	s.passOn(record.StopSignal, e.Stop)
	s.hasSilence() // the usual reason to wake up; nothing has changed yet
	s.hasEnded()
	s.reap()
	s.hasSilence()
	s.write()
}

// need adds a call that has to succeed.
func (s *ending) need(number uintptr, args ...tiny.Arg) tiny.Arg {
	return s.Call(tiny.Fails, s.awake, number, args...)
}

// try adds a call that may fail.
func (s *ending) try(number uintptr, args ...tiny.Arg) tiny.Arg {
	return s.Call(tiny.Follow, 0, number, args...)
}

// signalGroup sends a signal to the main process's group. A group has the number of its leader, so that
// the pidfd of the main process stands for the group.
func (s *ending) signalGroup(otherwise tiny.Label, sig unix.Signal) {
	s.Call(tiny.Fails, otherwise, unix.SYS_PIDFD_SEND_SIGNAL, s.main, tiny.N(sig), tiny.N(0), tiny.N(processGroup))
}

// passOn takes a signal of the agent and sends the container's. If this fails, the signal is pending
// again when the program of Go starts.
func (s *ending) passOn(asked, sent unix.Signal) {
	next, failed := s.Label(), s.Label()
	s.Call(tiny.Fails, next, unix.SYS_RT_SIGTIMEDWAIT, tiny.Values(s.Program, set([]unix.Signal{asked}).Val[:1]), tiny.N(0), s.noWait, tiny.N(8))
	s.signalGroup(failed, sent)
	s.Go(s.sleep)
	s.Place(failed)
	self := s.try(unix.SYS_GETPID)
	s.Call(tiny.Jump, s.awake, unix.SYS_KILL, self, tiny.N(asked))
	s.Place(next)
}

// hasEnded goes to awake unless the main process of a completed start has ended and no command of
// Exec was started. A process that ends closes its output first, so the sleeper waits a moment for
// the end.
func (s *ending) hasEnded() {
	ended := tiny.Values(s.Program, []unix.PollFd{{Fd: int32(s.Main), Events: unix.POLLIN}})
	moment := tiny.Values(s.Program, []unix.Timespec{{Nsec: 1e8}})
	s.Call(tiny.Empty, s.awake, unix.SYS_PPOLL, ended, tiny.N(1), moment, tiny.N(0))
	s.Call(tiny.Empty, s.awake, unix.SYS_FCNTL, tiny.N(s.Statement), tiny.N(unix.F_GET_SEALS))
	s.Call(tiny.Parent, s.awake, unix.SYS_LSEEK, s.report, tiny.N(0), tiny.N(unix.SEEK_END))
	unused := s.Label()
	s.Call(tiny.Fails, unused, unix.SYS_FACCESSAT, s.cwd, s.Text(record.ExecFile), tiny.N(unix.F_OK))
	s.Go(s.awake)
	s.Place(unused)
}

// hasSilence goes to awake if output is left in a pipe. A jump can depend only on the result of a call,
// so a seek in the report makes the number of bytes a result.
func (s *ending) hasSilence() {
	for _, fd := range s.Outputs {
		bytes := s.Put(make([]byte, 8))
		s.need(unix.SYS_IOCTL, tiny.N(fd), tiny.N(unix.TIOCINQ), bytes)
		s.Call(tiny.Parent, s.awake, unix.SYS_LSEEK, s.report, bytes.Word(), tiny.N(unix.SEEK_SET))
	}
}

// reap kills the process group, and reaps the main process and all other children. If processes are
// left, the program of Go finds the record.End in the report.
func (s *ending) reap() {
	s.signalGroup(s.awake, unix.SIGKILL)
	s.need(unix.SYS_CLOCK_GETTIME, tiny.N(unix.CLOCK_REALTIME), s.end)
	s.need(unix.SYS_WAITID, tiny.N(byPidfd), s.main, s.end.Plus(record.EndInfo), tiny.N(unix.WEXITED|unix.WNOWAIT), tiny.N(0))
	s.need(unix.SYS_PWRITE64, s.report, s.end, tiny.N(record.EndSize), tiny.N(0))
	s.need(unix.SYS_WAITID, tiny.N(byPidfd), s.main, tiny.N(0), tiny.N(unix.WEXITED), tiny.N(0))
	alone, others := s.Label(), s.Put(make([]byte, record.EndSize-record.EndInfo))
	for attempt := range 2 {
		if attempt > 0 { // the processes of the group end soon
			s.try(unix.SYS_NANOSLEEP, tiny.Values(s.Program, []unix.Timespec{{Nsec: 1e7}}), tiny.N(0))
		}
		again, none := s.Label(), s.Label()
		s.Place(again)
		s.Call(tiny.Empty, none, unix.SYS_WAIT4, tiny.N(-1), tiny.N(0), tiny.N(unix.WNOHANG), tiny.N(0))
		s.Go(again)
		s.Place(none)
		s.Call(tiny.Fails, alone, unix.SYS_WAITID, tiny.N(unix.P_ALL), tiny.N(0), others, tiny.N(unix.WEXITED|unix.WNOHANG|unix.WNOWAIT), tiny.N(0))
	}
	s.Go(s.awake)
	s.Place(alone)
}

// write writes the record and ends the process. The file gets its name before its content, so that one sync
// puts both on the disk: ext4, XFS and btrfs sync a file with its new name. A reader that finds the file
// without its content reads the copy, which the sleeper writes first. The copy is in the file of the lock,
// because a new file costs more than all other calls on some file systems.
func (s *ending) write() {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	name, size := s.Text(record.EndFile), tiny.N(record.EndSize)
	s.try(unix.SYS_PWRITE64, tiny.N(record.LockFD), s.end, size, tiny.N(0))
	s.try(unix.SYS_UNLINKAT, s.cwd, s.Text(record.ExitFile), tiny.N(0)) // forged by the container
	s.try(unix.SYS_RENAMEAT2, s.cwd, s.Text(record.ReservedFile), s.cwd, name, tiny.N(0))
	file := s.need(unix.SYS_OPENAT, s.cwd, name, tiny.N(flags), tiny.N(0o600))
	s.need(unix.SYS_WRITE, file, s.end, size)
	s.need(unix.SYS_FTRUNCATE, file, size)
	s.need(unix.SYS_FSYNC, file)
	over := s.Label()
	s.Place(over)
	s.Call(tiny.Jump, over, unix.SYS_EXIT_GROUP, tiny.N(0))
}
