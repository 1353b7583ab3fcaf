// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// journal writes lines of JSON: the head, the nodes, an event per line, and the report. It contains
// neither wall time nor addresses, so equal options give equal bytes. A nil journal writes nothing.
//
// Amounts are in thousandths of a core, bytes and thousandths of a GPU, times in seconds.
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

// head writes a line with the name, the seed and the model, and a line for each node.
func (j *journal) head(s *Sim) {
	if j == nil {
		return
	}
	b := []byte("{")
	for _, fact := range [][2]string{
		{"run", s.opts.Name}, {"profile", s.scheduler.profile.Name}, {"backend", s.backend.Name()},
		{"model", s.opts.Model.Source}, {"origin", s.opts.Origin}, {"version", version},
	} {
		b = appendText(append(append(append(b, '"'), fact[0]...), `":`...), fact[1])
		b = append(b, ',')
	}
	b = strconv.AppendUint(append(b, `"seed":`...), s.opts.Seed, 10)
	b = strconv.AppendInt(append(b, `,"nodes":`...), int64(len(s.snapshot.nodes)), 10)
	j.write(b)
	for _, n := range s.snapshot.nodes {
		b = appendText(append(j.line[:0], `{"node":`...), n.Name)
		b = appendAmount(b, `,"cpu":`, n.Allocatable.CPU)
		b = appendAmount(b, `,"memory":`, n.Allocatable.Memory)
		b = appendAmount(b, `,"gpus":`, int64(len(n.GPUs)))
		if n.Model != "" {
			b = appendText(append(b, `,"model":`...), n.Model)
		}
		j.write(b)
	}
}

// write ends a line. flush returns the error.
func (j *journal) write(line []byte) {
	j.line = append(line, '}', '\n')
	_, _ = j.w.Write(j.line)
}

// appendAmount appends a key and a number, unless the number is 0.
func appendAmount(b []byte, key string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, key...), n, 10)
}

// appendText appends a string of JSON.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			text, _ := json.Marshal(s) // a string has no error
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func (j *journal) event(e Event) {
	if j == nil {
		return
	}
	b := append(j.line[:0], `{"t":`...)
	b = strconv.AppendFloat(b, e.At.Seconds(), 'f', -1, 64)
	b = append(append(append(b, `,"event":"`...), e.Kind.String()...), '"')
	if e.Pod != nil {
		b = appendText(append(b, `,"pod":`...), e.Pod.Name)
		if e.Kind == Submitted {
			b = appendPod(b, e.Pod)
		}
	}
	if e.Node != nil {
		b = appendText(append(b, `,"node":`...), e.Node.Name)
	}
	if e.Kind == Bound && len(e.Pod.Devices) > 0 {
		for i, d := range e.Pod.Devices {
			if i == 0 {
				b = append(b, `,"gpus":[`...)
			} else {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(d), 10)
		}
		b = append(b, ']')
	}
	if e.Text != "" {
		b = appendText(append(b, `,"text":`...), e.Text)
	}
	j.write(b)
}

// appendPod appends the requests of a pod.
func appendPod(b []byte, p *Pod) []byte {
	b = strconv.AppendUint(append(b, `,"uid":`...), p.UID, 10)
	if p.User != "" {
		b = appendText(append(b, `,"user":`...), p.User)
	}
	if p.Gang != nil {
		b = appendText(append(b, `,"gang":`...), p.Gang.Name)
	}
	b = appendAmount(b, `,"priority":`, int64(p.Shape.Priority))
	b = appendAmount(b, `,"cpu":`, p.Shape.Requests.CPU)
	b = appendAmount(b, `,"memory":`, p.Shape.Requests.Memory)
	b = appendAmount(b, `,"gpu":`, p.Shape.GPU.Total())
	if p.Work > 0 {
		b = strconv.AppendFloat(append(b, `,"work":`...), p.Work.Seconds(), 'f', -1, 64)
	}
	return b
}

// end writes the report as the last line, and returns the first error of the journal.
func (j *journal) end(r *Report) error {
	line, err := json.Marshal(struct {
		Report *Report `json:"report"`
	}{r})
	if err == nil {
		_, _ = j.w.Write(append(line, '\n'))
	}
	if err = errors.Join(err, j.w.Flush()); err != nil {
		return fmt.Errorf("sim: journal: %w", err)
	}
	return nil
}
