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

// retryAfter is the pause after a failed rotation.
const retryAfter = time.Second

// logFile is a container's log on disk. The log is rotated before a line that would make the file
// too big. If another program has renamed the file, logFile makes a new file. The steps of a
// rotation:
//
//	remove the oldest rotated files, to make room for another rotated file
//	0.log -> 0.log.<stamp>          from here on 0.log is missing
//	0.log (new)                     on failure the old file is renamed back
//
// A shim killed between two steps loses no output, because every file has a name that readers know.
// A failed step is tried again after a second. Until then lines go to the open file, and shim.log
// gets a single note.
type logFile struct {
	path     string
	maxSize  int64 // bytes; 0 or less: no limit
	maxFiles int   // the log included
	disk     disk
	notes    io.Writer

	file  io.WriteCloser
	info  fs.FileInfo // of file, from the time of opening
	torn  bool        // the last write to file failed within a line
	retry time.Time   // after a failure: the time of the next attempt
	noted bool
}

// open opens the file at the path.
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
		_ = l.file.Close() // unwritten output is lost
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
				continue // without a rotation, all lines go to the open file
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

// follow opens the file at the path again if another program has replaced the file, and returns the
// size. bounded is false if the file cannot be rotated.
func (l *logFile) follow() (size int64, bounded bool) {
	info, err := l.disk.stat(l.path)
	if err == nil && os.SameFile(info, l.info) {
		return info.Size(), l.maxSize > 0 && info.Mode().IsRegular()
	}
	// Only a regular file may replace the open file, because the container must not block.
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

// rotate rotates the log and reports whether the open file is new and empty.
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
			l.note(err) // the next rotation tries the removal again
		}
	}
	old := l.path + "." + stamp
	if err := l.disk.rename(l.path, old); err != nil {
		return l.failed(err)
	}
	file, info, err := l.disk.open(l.path)
	if err != nil {
		if back := l.disk.putBack(old, l.path); back != nil {
			// The log is missing until follow makes a new file.
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

// failed notes the error and delays the next attempt. The result is always false.
func (l *logFile) failed(err error) bool {
	l.retry = time.Now().Add(retryAfter)
	l.note(err)
	return false
}

// note writes the first failure to shim.log. Later failures are not written, because shim.log must
// not fill the disk.
func (l *logFile) note(err error) {
	if l.noted {
		return
	}
	l.noted = true
	_, _ = fmt.Fprintf(l.notes, "log: %v; the container runs on, and this is said once\n", err)
}
