// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"io"
	"math"
)

const (
	// block is the number of bytes per read on the way back from the end of a file.
	block = 64 << 10
	// headLength is the number of bytes of a line that contain its stream and tag.
	headLength = 256
)

// place is a start position in a file.
type place struct {
	offset int64    // where to read from
	first  [2]int64 // by stream: entries before first belong to unwanted lines
	lines  int64    // wanted lines that end in the file
}

// backward finds the last lines of a file without reading the whole file. A line counts at its end,
// the full entry. A line without a full entry ends at its last piece. In a rotated file such a line
// ends in the next file and was counted there.
//
// The pieces of a wanted line may lie among entries of the other stream, before lines that do not
// count. The search therefore continues until it finds the preceding line of each stream that has a
// wanted line. It stops maxLine bytes before the earliest wanted piece found so far. The length of
// a line is not bounded.
type backward struct {
	file    io.ReaderAt
	size    int64
	want    int64
	wants   func(Stream) bool
	rotated bool
	streams [2]chain
	begin   place
}

// chain is the state of a stream between the end of the file and the current position.
type chain uint8

const (
	unseen   chain = iota
	wanted         // the pieces that come next belong to a line that counts
	unwanted       // to one that does not
)

// run returns the start of the last b.want lines.
func (b *backward) run() (place, error) {
	b.begin = place{offset: b.size, first: [2]int64{b.size, b.size}}
	if b.want == 0 {
		return b.begin, nil
	}
	if err := b.scan(); err != nil {
		return place{}, err
	}
	if b.begin.lines < b.want {
		b.begin.offset, b.begin.first = 0, [2]int64{}
	}
	return b.begin, nil
}

// scan visits lines from the last to the first, until the search is done.
func (b *backward) scan() error {
	buf := make([]byte, min(block, b.size))
	end := b.size // of the current line
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

// visit handles the line from start to end, without its newline. part is the beginning of the line
// that is in memory.
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
	if err != nil && int64(len(head)) < length { // a JSON line has to be complete
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

// count counts the next entry on the way back.
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
		*chain = wanted
	}
	if *chain == wanted {
		b.begin.offset, b.begin.first[e.Stream] = start, start
	}
}

// done reports whether the entries before end are not needed.
func (b *backward) done(end int64) bool {
	if b.begin.lines < b.want {
		return false
	}
	return b.streams[Stdout] != wanted && b.streams[Stderr] != wanted || b.begin.offset-end > maxLine
}

// forward replaces backward for a compressed file, which is readable only from the start. open
// opens the file. forward counts all lines first.
func forward(open func() (io.Reader, error), want int64, wants func(Stream) bool) (place, error) {
	all := lineCount{wants: wants}
	if err := all.read(open); err != nil || all.total <= want {
		return place{lines: all.total}, err
	}
	last := lineCount{wants: wants, skip: all.total - want}
	err := last.read(open)
	return place{first: last.first(), lines: want}, err
}

// lineCount counts the lines that end in a file, and finds where the lines after the first
// skip ones begin.
type lineCount struct {
	wants func(Stream) bool
	skip  int64

	total   int64
	streams [2]struct {
		open  bool  // its last line is not complete
		begin int64 // offset of the first piece of its open line, or of its first line after skip
		found bool  // begin is that of a line after skip
	}
}

// read counts the entries of one file.
func (c *lineCount) read(open func() (io.Reader, error)) error {
	src, err := open()
	if err != nil {
		return err
	}
	d := newDecoder()
	d.reset(src, 0)
	for {
		switch e, err := d.next(); {
		case err == nil:
			c.add(e)
		case err == io.EOF:
			if e, ok := d.last(); ok {
				c.add(e)
			}
			return nil
		default:
			return err
		}
	}
}

func (c *lineCount) add(e Entry) {
	if !c.wants(e.Stream) {
		return
	}
	s := &c.streams[e.Stream]
	if !s.open && !s.found {
		s.begin = e.offset
	}
	s.open = e.Partial
	if !e.Partial {
		s.found = s.found || c.total >= c.skip
		c.total++
	}
}

// first returns place.first. An incomplete line ends in the next file and was counted there.
func (c *lineCount) first() (first [2]int64) {
	for i, s := range c.streams {
		first[i] = math.MaxInt64
		if s.found || s.open {
			first[i] = s.begin
		}
	}
	return first
}
