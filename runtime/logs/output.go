// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"errors"
	"io"
	"time"
)

// maxLine is the number of bytes of an incomplete line that are held back, so that the streams do
// not mix within a line. A longer line is written piece by piece.
const maxLine = 256 << 10

// batch is the number of bytes collected before a write.
const batch = 32 << 10

// timeLayout is RFC 3339 with a fixed width.
const timeLayout = "2006-01-02T15:04:05.000000000Z07:00"

// errLimit ends reading when Options.LimitBytes have been written.
var errLimit = errors.New("limit reached")

// output joins entries to lines and writes the wanted lines.
type output struct {
	writers    [2]io.Writer // by stream; nil: unwanted
	since      time.Time
	timestamps bool
	limit      int64    // bytes that may still be written; negative: any number
	first      [2]int64 // by stream: entries before this offset of the file being read are dropped

	lines  [2]line
	batch  []byte // of one stream
	stream Stream

	written, bytes int64 // lines and bytes
}

// line is an incomplete line.
type line struct {
	open  bool
	at    time.Time // of its first piece
	old   bool      // before since
	begun bool      // a part was written
	text  []byte
}

func (o *output) wants(s Stream) bool { return o.writers[s] != nil }

// add processes the next entry.
func (o *output) add(e Entry) error {
	if !o.wants(e.Stream) || e.offset < o.first[e.Stream] {
		return nil
	}
	l := &o.lines[e.Stream]
	if !l.open {
		*l = line{open: true, at: e.Time, old: e.Time.Before(o.since), text: l.text[:0]}
	}
	if !e.Partial {
		return o.end(e.Stream, e.Text, "\n")
	}
	if l.old {
		return nil
	}
	if len(l.text)+len(e.Text) <= maxLine {
		l.text = append(l.text, e.Text...)
		return nil
	}
	begun := l.begun
	l.begun = true
	err := o.write(e.Stream, begun, l.at, l.text, e.Text, "")
	l.text = l.text[:0]
	return err
}

// end completes a line.
func (o *output) end(s Stream, text []byte, newline string) error {
	l := &o.lines[s]
	l.open = false
	if l.old {
		return nil
	}
	o.written++
	return o.write(s, l.begun, l.at, l.text, text, newline)
}

// finish writes the incomplete lines that will not be completed.
func (o *output) finish() error {
	for s := range o.lines {
		if o.lines[s].open {
			if err := o.end(Stream(s), nil, ""); err != nil {
				return err
			}
		}
	}
	return o.flush()
}

// write puts the pieces of a line, which may have begun before, into the batch.
func (o *output) write(s Stream, begun bool, at time.Time, text, more []byte, newline string) error {
	if o.stream != s {
		if err := o.flush(); err != nil {
			return err
		}
		o.stream = s
	}
	if o.timestamps && !begun {
		o.batch = at.UTC().AppendFormat(o.batch, timeLayout)
		o.batch = append(o.batch, ' ')
	}
	o.batch = append(append(append(o.batch, text...), more...), newline...)
	if len(o.batch) >= batch || o.limit >= 0 && int64(len(o.batch)) >= o.limit {
		return o.flush()
	}
	return nil
}

// flush writes the batch up to the limit.
func (o *output) flush() error {
	out, full := o.batch, false
	if o.limit >= 0 && int64(len(out)) >= o.limit {
		out, full = out[:o.limit], true
	}
	o.batch = o.batch[:0]
	if len(out) > 0 {
		n, err := o.writers[o.stream].Write(out)
		o.bytes += int64(n)
		if err != nil {
			return err
		}
		if o.limit >= 0 {
			o.limit -= int64(len(out))
		}
	}
	if full {
		return errLimit
	}
	return nil
}

// shrink releases the memory that the next line does not need. The batch is flushed.
func (o *output) shrink() {
	o.batch = nil
	for s := range o.lines {
		if l := &o.lines[s]; !l.open {
			l.text = nil
		}
	}
}
