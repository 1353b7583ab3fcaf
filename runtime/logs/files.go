// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/internal/logstamp"
	"github.com/keelson-dev/keelson/internal/sorted"
)

// tmpSuffix is the end of the name of a compression that is not complete.
const tmpSuffix = ".tmp"

// rotated is a rotated log file.
type rotated struct {
	stamp string
	gz    bool
}

// suffix returns the part of the file name after the log's own name.
func (r rotated) suffix() string {
	if r.gz {
		return "." + r.stamp + logstamp.GZ
	}
	return "." + r.stamp
}

// rotatedOf reports whether name is a rotated file of the log file base.
func rotatedOf(name, base string) (r rotated, ok bool) {
	r.stamp, r.gz, ok = logstamp.Of(name, base)
	return r, ok
}

// history returns the rotated files of base among names, oldest first. A file that is present with
// and without compression, because the compression was interrupted, appears once, as uncompressed.
func history(names []string, base string) []rotated {
	var out []rotated
	for _, name := range names {
		if r, ok := rotatedOf(name, base); ok {
			out = append(out, r)
		}
	}
	sorted.By(out, func(a, b rotated) int {
		return cmp.Or(cmp.Compare(a.stamp, b.stamp), len(a.suffix())-len(b.suffix()))
	})
	return slices.CompactFunc(out, func(a, b rotated) bool { return a.stamp == b.stamp })
}

// namesIn lists a folder. A missing folder is empty.
func namesIn(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return names, err
}

// openLog opens a regular file.
func openLog(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a fifo must not block the open
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: is not a regular file", path)
	}
	if err != nil {
		_ = f.Close() // the other error says more
		return nil, err
	}
	return f, nil
}

// opened is a rotated file being read.
type opened struct {
	file  *os.File
	size  int64
	mtime time.Time
	gz    bool
}

// openRotated opens a rotated file of the log at path, which may have been
// compressed since it was listed.
func openRotated(path string, r rotated) (*opened, error) {
	f, err := openLog(path + r.suffix())
	if errors.Is(err, fs.ErrNotExist) && !r.gz {
		r.gz = true
		f, err = openLog(path + r.suffix())
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // the other error says more
		return nil, err
	}
	return &opened{file: f, size: info.Size(), mtime: info.ModTime(), gz: r.gz}, nil
}

func (o *opened) close() { _ = o.file.Close() } // it was only read

// tail returns the start of the file's last n lines.
func (o *opened) tail(n int64, wants func(Stream) bool) (place, error) {
	if o.gz {
		return forward(func() (io.Reader, error) { return o.from(0) }, n, wants)
	}
	b := &backward{file: o.file, size: o.size, want: n, wants: wants, rotated: true}
	return b.run()
}

// from returns the text from offset on, which is 0 for a compressed file.
func (o *opened) from(offset int64) (io.Reader, error) {
	if _, err := o.file.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	if o.gz {
		return gzip.NewReader(o.file)
	}
	return o.file, nil
}
