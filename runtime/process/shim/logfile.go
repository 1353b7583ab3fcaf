// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// retryAfter is how long after a failure a rotation is not tried again.
const retryAfter = time.Second

// logFile is a container's log on disk. It is rotated when the next line would
// make it too big, and begun anew when somebody else has renamed it:
//
//	remove the oldest rotated files, so that one more is not too many
//	0.log -> 0.log.<stamp>          from here on 0.log is missing
//	0.log (new)                     if that fails the name is put back
//
// A shim that is killed between any two of these has lost nothing: what there is
// are whole files under names that readers know. What fails is tried again a
// second later; until then lines go to the file that is open, and one note goes
// to shim.log.
type logFile struct {
	path     string
	maxSize  int64 // bytes; 0 or less: no limit
	maxFiles int   // the log included
	disk     disk
	notes    io.Writer

	file  io.WriteCloser
	info  fs.FileInfo // of file, when it was opened
	torn  bool        // the last write to file failed halfway: a line is not complete
	retry time.Time   // a failure: nothing is tried before
	noted bool
}

// open opens the file that the path leads to.
func (l *logFile) open() error {
	file, info, err := l.disk.open(l.path)
	if err != nil {
		return err
	}
	l.turnTo(file, info)
	return nil
}

func (l *logFile) turnTo(file io.WriteCloser, info fs.FileInfo) {
	if l.file != nil {
		_ = l.file.Close() // what could not be written is lost
	}
	l.file, l.info, l.torn = file, info, false
}

// Write appends whole lines.
func (l *logFile) Write(lines []byte) (written int, err error) {
	size, bounded := l.follow()
	for written < len(lines) {
		rest := lines[written:]
		if bounded {
			n := fitting(rest, l.maxSize-size)
			if n == 0 && size > 0 {
				if bounded = l.rotate(); bounded {
					size = 0
				}
				continue // all goes to the file that there is
			}
			if n == 0 {
				n = firstLine(rest)
			}
			rest = rest[:n]
		}
		n, err := l.put(rest)
		written += n
		size += int64(n)
		if err != nil {
			l.note(err)
			return written, err
		}
	}
	return written, nil
}

// follow makes sure that what is open is what the path leads to, and returns its
// size. It is not bounded if it cannot be rotated.
func (l *logFile) follow() (size int64, bounded bool) {
	info, err := l.disk.stat(l.path)
	if err == nil && os.SameFile(info, l.info) {
		return info.Size(), l.maxSize > 0 && info.Mode().IsRegular()
	}
	// Only a file takes the place of a file: the container must not block.
	replaced := err == nil && info.Mode().IsRegular() || errors.Is(err, fs.ErrNotExist)
	if !replaced || time.Now().Before(l.retry) {
		return 0, false
	}
	if err := l.open(); err != nil {
		l.failed(err)
		return 0, false
	}
	return l.info.Size(), l.maxSize > 0 && l.info.Mode().IsRegular()
}

// rotate reports whether the log is a new, empty file now.
func (l *logFile) rotate() bool {
	now := time.Now()
	if now.Before(l.retry) {
		return false
	}
	dir, base := filepath.Split(l.path)
	names, err := l.disk.names(filepath.Clean(dir), base+".")
	if err != nil {
		return l.failed(err)
	}
	remove, stamp := makeRoom(names, base, l.maxFiles, now)
	for _, name := range remove {
		if err := l.disk.remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.note(err) // it counts again the next time
		}
	}
	old := l.path + "." + stamp
	if err := l.disk.rename(l.path, old); err != nil {
		return l.failed(err)
	}
	file, info, err := l.disk.open(l.path)
	if err != nil {
		if back := l.disk.putBack(old, l.path); back != nil {
			// The log is missing until follow makes it.
			err = fmt.Errorf("%w; rename it back: %w", err, back)
		}
		return l.failed(err)
	}
	l.turnTo(file, info)
	return true
}

// put writes lines to the open file.
func (l *logFile) put(lines []byte) (int, error) {
	if l.torn {
		if _, err := l.file.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
		l.torn = false
	}
	n, err := l.file.Write(lines)
	l.torn = err != nil && n > 0 && lines[n-1] != '\n'
	return n, err
}

// failed is what a rotation or reopening that failed ends with.
func (l *logFile) failed(err error) bool {
	l.retry = time.Now().Add(retryAfter)
	l.note(err)
	return false
}

// note tells of the first failure only: whatever fills the disk, it is not this.
func (l *logFile) note(err error) {
	if l.noted {
		return
	}
	l.noted = true
	_, _ = fmt.Fprintf(l.notes, "log: %v; the container runs on, and this is said once\n", err)
}
