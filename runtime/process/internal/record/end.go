// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// End is the end of a container's main process, without the message and the reason of an Exit. A shim
// that dozes writes it with system calls alone, and leaves the Exit to the next reader.
type End struct {
	Code int32 // 128+n for signal n
	At   time.Time
}

// The parts of an End in EndFile: a timespec, and the siginfo of waitid.
const (
	EndInfo  = 16
	EndSize  = EndInfo + infoSize
	infoSize = 128
)

// ReadEnd reads the End in a container's folder, or its copy in the file of the lock. Every error is
// fs.ErrNotExist or a *CorruptError.
func ReadEnd(dir *os.Root) (end End, err error) {
	raw, err := load(dir, EndFile)
	if err == nil {
		if end, err = ParseEnd(raw); err == nil {
			return end, nil
		}
		err = corrupt(dir, EndFile, err)
	}
	if spare, spareErr := load(dir, LockFile); spareErr == nil && len(spare) >= EndSize {
		if end, spareErr = ParseEnd(spare[:EndSize]); spareErr == nil {
			return end, nil
		}
	}
	return End{}, err
}

// ParseEnd returns the End in the bytes that a shim has written. The layout is that of processors with
// words of 64 bits.
func ParseEnd(raw []byte) (End, error) {
	if len(raw) != EndSize {
		return End{}, errors.New("it is not complete")
	}
	number := func(at int) int32 { return int32(binary.NativeEndian.Uint32(raw[at:])) }
	const killed, dumped, exited = 2, 3, 1 // CLD_KILLED, CLD_DUMPED, CLD_EXITED
	signal, how, status := number(EndInfo), number(EndInfo+8), number(EndInfo+24)
	end := End{Code: status, At: time.Unix(int64(binary.NativeEndian.Uint64(raw)), int64(binary.NativeEndian.Uint64(raw[8:]))).UTC()}
	switch {
	case signal != int32(unix.SIGCHLD) || how != exited && how != killed && how != dumped:
		return End{}, errors.New("it is not the end of a process")
	case how != exited:
		end.Code += 128
	}
	return end, nil
}
