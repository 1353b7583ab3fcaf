// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
)

// journal writes a line of JSON per event. It contains neither wall time nor addresses, so equal
// options give equal bytes. A nil journal writes nothing.
type journal struct {
	w    *bufio.Writer
	line []byte
}

func newJournal(w io.Writer) *journal {
	if w == nil {
		return nil
	}
	return &journal{w: bufio.NewWriterSize(w, 1<<16)}
}

// head writes the first line: the name, the seed and the model.
func (j *journal) head(s *Sim) {
	if j == nil {
		return
	}
	fmt.Fprintf(j.w, `{"run":%q,"profile":%q,"backend":%q,"model":%q,"seed":%d,"nodes":%d}`+"\n",
		s.opts.Name, s.scheduler.profile.Name, s.backend.Name(), s.opts.Model.Source, s.opts.Seed, len(s.snapshot.nodes))
}

func (j *journal) event(e Event) {
	if j == nil {
		return
	}
	b := append(j.line[:0], `{"t":`...)
	b = strconv.AppendFloat(b, e.At.Seconds(), 'f', -1, 64)
	b = append(append(append(b, `,"event":"`...), e.Kind.String()...), '"')
	if e.Pod != nil {
		b = strconv.AppendQuote(append(b, `,"pod":`...), e.Pod.Name)
		if e.Kind == Submitted {
			b = strconv.AppendUint(append(b, `,"uid":`...), e.Pod.UID, 10)
		}
	}
	if e.Node != nil {
		b = strconv.AppendQuote(append(b, `,"node":`...), e.Node.Name)
	}
	if e.Kind == Bound {
		for i, d := range e.Pod.Devices {
			if i == 0 {
				b = append(b, `,"gpus":[`...)
			} else {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(d), 10)
		}
		if len(e.Pod.Devices) > 0 {
			b = append(b, ']')
		}
	}
	if e.Text != "" {
		b = strconv.AppendQuote(append(b, `,"text":`...), e.Text)
	}
	b = append(b, '}', '\n')
	j.line = b
	_, _ = j.w.Write(b) // flush returns the error
}

// flush writes the rest, and returns the first error of the journal.
func (j *journal) flush() error {
	if j == nil {
		return nil
	}
	if err := j.w.Flush(); err != nil {
		return fmt.Errorf("sim: journal: %w", err)
	}
	return nil
}
