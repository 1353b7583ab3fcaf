// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"io"
)

const (
	// block is how much is read at once on the way back from the end of a file.
	block = 64 << 10
	// headLength is how much of a line is enough to know its stream and tag.
	headLength = 256
)

// place is where in a file to begin.
type place struct {
	offset int64 // where to read from
	emit   int64 // lines whose last entry is before this one are not wanted
	lines  int64 // wanted lines that end in the file
}

// backward looks for the last lines of a file without reading the rest of it.
// A line counts where it ends: at its full entry. One without a full entry ends
// at its last piece, or, if the file was rotated, in the next file, which has
// counted it.
//
// Its pieces may lie among entries of the other stream, before lines that do not
// count any more; so it goes on, for at most maxLine bytes, until it has come
// upon the line before in each stream.
type backward struct {
	file    io.ReaderAt
	size    int64
	want    int64
	wants   func(Stream) bool
	rotated bool
	streams [2]chain
	begin   place
}

// chain is what is known of a stream from the end of the file up to here.
type chain uint8

const (
	unseen   chain = iota
	wanted         // the pieces that come next belong to a line that counts
	unwanted       // to one that does not
)

// run returns where the last b.want lines begin.
func (b *backward) run() (place, error) {
	b.begin = place{offset: b.size, emit: b.size}
	if b.want == 0 {
		return b.begin, nil
	}
	if err := b.scan(); err != nil {
		return place{}, err
	}
	if b.begin.lines < b.want {
		b.begin.offset, b.begin.emit = 0, 0
	}
	return b.begin, nil
}

// scan visits lines from the last to the first, until it has seen enough.
func (b *backward) scan() error {
	buf := make([]byte, min(block, b.size))
	end := b.size // of the line that is being looked for
	for pos := b.size; pos > 0; {
		from := max(0, pos-block)
		part := buf[:pos-from]
		if _, err := b.file.ReadAt(part, from); err != nil && err != io.EOF {
			return err
		}
		for i := len(part) - 1; i >= 0; i-- {
			i = bytes.LastIndexByte(part[:i+1], '\n')
			if i < 0 {
				break
			}
			start := from + int64(i) + 1
			if err := b.visit(start, end, part[i+1:]); err != nil {
				return err
			}
			end = start - 1
			if b.done(end) {
				return nil
			}
		}
		pos = from
	}
	return b.visit(0, end, nil)
}

// visit looks at the line from start to end, without its newline. part is the
// beginning of it, as far as it is in memory.
func (b *backward) visit(start, end int64, part []byte) error {
	if start >= end {
		return nil
	}
	length := min(end-start, maxEntry)
	head := part[:min(int64(len(part)), length)]
	if int64(len(head)) < min(length, headLength) {
		var err error
		if head, err = b.read(start, min(length, headLength)); err != nil {
			return err
		}
	}
	e, err := ParseEntry(head)
	if err != nil && int64(len(head)) < length { // JSON has to be whole
		if head, err = b.read(start, length); err != nil {
			return err
		}
		e, err = ParseEntry(head)
	}
	if err == nil && b.wants(e.Stream) {
		b.count(start, e)
	}
	return nil
}

func (b *backward) read(start, length int64) ([]byte, error) {
	part := make([]byte, length)
	n, err := b.file.ReadAt(part, start)
	if err == io.EOF { // the file became shorter
		err = nil
	}
	return part[:n], err
}

// count takes the next entry on the way back.
func (b *backward) count(start int64, e Entry) {
	chain := &b.streams[e.Stream]
	switch {
	case e.Partial && (*chain != unseen):
	case e.Partial && b.rotated:
		*chain = wanted
	case b.begin.lines == b.want:
		*chain = unwanted
	default:
		b.begin.lines++
		b.begin.emit = start
		*chain = wanted
	}
	if *chain == wanted {
		b.begin.offset = start
	}
}

// done reports whether nothing before end is needed.
func (b *backward) done(end int64) bool {
	if b.begin.lines < b.want {
		return false
	}
	return b.streams[Stdout] != wanted && b.streams[Stderr] != wanted || b.begin.emit-end > maxLine
}

// forward is backward for a rotated file that can only be read from its
// beginning, which open does: it counts all lines first.
func forward(open func() (io.Reader, error), want int64, wants func(Stream) bool) (place, error) {
	total, _, err := countLines(open, -1, wants)
	if err != nil || total <= want {
		return place{lines: total}, err
	}
	_, emit, err := countLines(open, total-want, wants)
	return place{emit: emit, lines: want}, err
}

// countLines counts the lines that end in a file. at is where the last entry of
// line number n is, counted from 0.
func countLines(open func() (io.Reader, error), n int64, wants func(Stream) bool) (total, at int64, err error) {
	src, err := open()
	if err != nil {
		return 0, 0, err
	}
	d := newDecoder()
	d.reset(src, 0)
	for {
		e, err := d.next()
		if err != nil && err != io.EOF {
			return total, at, err
		}
		ok, last := err == nil, err == io.EOF
		if last {
			e, ok = d.last()
		}
		if ok && !e.Partial && wants(e.Stream) {
			if total == n {
				at = e.offset
			}
			total++
		}
		if last {
			return total, at, nil
		}
	}
}
