// SPDX-License-Identifier: Apache-2.0

package doze

import (
	goruntime "runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// every returns the set of all signals.
func every() *unix.Sigset_t {
	s := &unix.Sigset_t{}
	for i := range s.Val {
		s.Val[i] = ^s.Val[i]
	}
	return s
}

// set returns a set of signals.
func set(signals []unix.Signal) *unix.Sigset_t {
	s := &unix.Sigset_t{}
	const word = int(unsafe.Sizeof(s.Val[0])) * 8
	for _, sig := range signals {
		s.Val[(int(sig)-1)/word] |= 1 << ((int(sig) - 1) % word)
	}
	return s
}

// Blocked calls f in a thread that blocks all signals. A process that f starts inherits this. In a
// program of Go, package os/signal unblocks a signal in a single thread, as long as the signal is
// wanted.
func Blocked(f func()) { masked(every(), f) }

// Unblocked calls f in a thread that blocks no signals.
func Unblocked(f func()) { masked(&unix.Sigset_t{}, f) }

func masked(mask *unix.Sigset_t, f func()) {
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	var before unix.Sigset_t
	if unix.PthreadSigmask(unix.SIG_SETMASK, mask, &before) == nil {
		defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	}
	f()
}

// Blocks reports whether the calling thread blocks a signal.
func Blocks(sig unix.Signal) bool {
	var now unix.Sigset_t
	if unix.PthreadSigmask(unix.SIG_BLOCK, nil, &now) != nil {
		return false
	}
	want := set([]unix.Signal{sig})
	for i := range now.Val {
		if now.Val[i]&want.Val[i] != 0 {
			return true
		}
	}
	return false
}
