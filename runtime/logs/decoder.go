// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"io"
)

// maxEntry is the longest line of a log file that is held in memory. Container
// engines cut lines into entries of 16 KiB; in Docker's JSON that is at most
// six times as long. Of a longer entry in the CRI's format each maxEntry bytes
// become an entry of their own; in JSON it is malformed.
const maxEntry = 128 << 10

// firstBuffer is enough for the entries that container engines write.
const firstBuffer = 32 << 10

// quietBuffer is the size of the buffer at the beginning, and while a followed log does not grow.
const quietBuffer = 512

// decoder reads the entries of a log file that may still grow. After io.EOF, next may be called
// again.
type decoder struct {
	src       io.Reader
	buf       []byte // buf[from:to] is read and not used yet; at most maxEntry
	from, to  int
	scanned   int   // of buf[from:to], that has no newline
	filled    bool  // the last read left no room in buf
	used      int64 // where in the file buf[from] is
	begin     int64 // where in the file the entry begins
	state     entryState
	head      Entry // the entry that is being continued
	malformed int64
}

// entryState is the position of the decoder in a long entry.
type entryState uint8

const (
	atStart  entryState = iota
	inEntry             // head is valid
	inBadOne            // skip to the newline
)

func newDecoder() *decoder { return &decoder{buf: make([]byte, quietBuffer)} }

// reset switches to another source, which begins at offset of its file. Unread bytes of the old
// source are dropped.
func (d *decoder) reset(src io.Reader, offset int64) {
	d.src, d.from, d.to, d.scanned, d.used, d.state = src, 0, 0, 0, offset, atStart
}

// next returns the next entry. The text is valid until the next call. At the end of the data, next
// returns io.EOF and keeps an incomplete line.
func (d *decoder) next() (Entry, error) {
	for {
		rest := d.buf[d.from:d.to]
		if i := bytes.IndexByte(rest[d.scanned:], '\n'); i >= 0 {
			if e, ok := d.take(d.scanned+i+1, true); ok {
				return e, nil
			}
			continue
		}
		d.scanned = len(rest)
		if len(rest) == maxEntry {
			if e, ok := d.take(len(rest), false); ok {
				return e, nil
			}
			continue
		}
		d.makeRoom()
		n, err := d.src.Read(d.buf[d.to:])
		d.to += n
		d.filled = d.to == len(d.buf)
		if n == 0 && err != nil {
			return Entry{}, err
		}
	}
}

// makeRoom moves the unread bytes to the beginning of a buffer with room for more. There are less than
// maxEntry unread bytes.
func (d *decoder) makeRoom() {
	rest := d.buf[d.from:d.to]
	switch {
	case len(rest) == len(d.buf):
		d.buf = make([]byte, min(max(2*len(d.buf), firstBuffer), maxEntry))
	case d.filled && len(d.buf) < firstBuffer: // the log grows again
		d.buf = make([]byte, firstBuffer)
	}
	d.to = copy(d.buf, rest)
	d.from = 0
}

// shrink releases the buffer, except for quietBuffer bytes, unless the buffer has unused bytes.
func (d *decoder) shrink() {
	if d.from == d.to && len(d.buf) > quietBuffer {
		d.buf, d.from, d.to, d.filled = make([]byte, quietBuffer), 0, 0, false
	}
}

// last returns the rest of a line that will not be completed.
func (d *decoder) last() (Entry, bool) {
	if d.from == d.to {
		if d.state == inEntry { // it ended just where the buffer did
			d.state = atStart
			e := d.head
			e.Text = nil
			return e, true
		}
		return Entry{}, false
	}
	return d.take(d.to-d.from, true)
}

// take consumes n bytes, the end of an entry if ends is true. The second result is false if they
// are not an entry.
func (d *decoder) take(n int, ends bool) (Entry, bool) {
	line := d.buf[d.from : d.from+n]
	if d.state == atStart {
		d.begin = d.used
	}
	d.from, d.scanned, d.used = d.from+n, 0, d.used+int64(n)
	state := d.state
	if ends {
		d.state = atStart
		line = bytes.TrimSuffix(line, []byte{'\n'})
	}
	switch state {
	case inBadOne:
		return Entry{}, false
	case inEntry:
		e := d.head
		e.Text = line
		e.Partial = e.Partial || !ends
		return e, true
	}
	if len(line) == 0 && ends {
		return Entry{}, false // what a writer puts after a line that it could not complete
	}
	e, err := ParseEntry(line)
	e.offset = d.begin
	if err != nil {
		d.malformed++
		if !ends {
			d.state = inBadOne
		}
		return Entry{}, false
	}
	if !ends {
		d.head, d.state = e, inEntry
		d.head.Text = nil
		e.Partial = true
	}
	return e, true
}
