// SPDX-License-Identifier: Apache-2.0

// Package kernelfile reads many small files of /proc and /sys with few system calls.
package kernelfile

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// Size is the size of a buffer that holds the usual file.
	Size = 4096
	// maxSize is the size of the largest file.
	maxSize = 1 << 20
)

// ErrTooLarge is returned for a file of more than 1 MiB.
var ErrTooLarge = errors.New("file is larger than 1 MiB")

// Append appends the content of a file to a buffer, which grows if needed. Unlike os.ReadFile, Append
// makes only the system calls that read: it does not ask for the file's size, which the kernel gives as
// 0, and does not register the file for notifications.
func Append(buffer []byte, path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return buffer, fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	for begin := len(buffer); ; {
		if len(buffer) == cap(buffer) {
			buffer = slices.Grow(buffer, Size)
		}
		n, err := unix.Read(fd, buffer[len(buffer):cap(buffer)])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return buffer[:begin], fmt.Errorf("read %s: %w", path, err)
		case n <= 0:
			return buffer, nil
		case len(buffer)+n-begin > maxSize:
			return buffer[:begin], fmt.Errorf("read %s: %w", path, ErrTooLarge)
		default:
			buffer = buffer[:len(buffer)+n]
		}
	}
}

// maxNumber is the size of the largest file with a number.
const maxNumber = 32

// Value returns the number in a file, or 0 if the file has another text. ok is false if the file
// cannot be read or is empty. Unlike Append, Value reads once, because the kernel returns a number
// as a whole.
func Value(path string) (n uint64, ok bool) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	var buffer [maxNumber]byte
	for {
		size, err := unix.Read(fd, buffer[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || size <= 0 {
			return 0, false
		}
		return Number(buffer[:size]), true
	}
}

// Line returns the first line of a text without its end, and the rest. The functions of this package are no
// iterators, because the buffer of a text that is passed to a function value cannot stay on the stack.
func Line(text []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(text, []byte{'\n'})
	return line, rest
}

// Word returns the first word of a line, and the rest. Words are separated by spaces and tabs.
func Word(line []byte) (word, rest []byte) {
	begin := 0
	for begin < len(line) && isSpace(line[begin]) {
		begin++
	}
	end := begin
	for end < len(line) && !isSpace(line[end]) {
		end++
	}
	return line[begin:end], line[end:]
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// Number returns a decimal number, 0 for another text.
func Number(text []byte) uint64 {
	if len(text) > 0 && text[len(text)-1] == '\n' {
		text = text[:len(text)-1]
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
