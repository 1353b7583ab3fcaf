// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// ErrNoReport is the error for a journal without a report at its end: the run was killed, or the file
// is not a journal.
var ErrNoReport = errors.New("the journal does not end with a report")

// Read returns the report at the end of a journal. name is for error messages.
func Read(journal io.Reader, name string) (*sim.Report, error) {
	var last struct{ Report *sim.Report }
	err := eachLine(journal, name, func(number int, line []byte) error {
		if !bytes.HasPrefix(line, []byte(`{"report":`)) {
			return nil
		}
		if err := json.Unmarshal(line, &last); err != nil {
			return fmt.Errorf("%s:%d: %w", name, number, err)
		}
		return nil
	})
	if err == nil && last.Report == nil {
		err = fmt.Errorf("%s: %w", name, ErrNoReport)
	}
	return last.Report, err
}

// eachLine calls f with each line and its number.
func eachLine(r io.Reader, name string, f func(number int, line []byte) error) error {
	lines := bufio.NewReaderSize(r, 1<<16)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := f(number, line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, number, err)
		}
	}
}

// podLine is an event of a pod in a journal.
type podLine struct {
	T        float64
	Event    string
	Pod      string
	Node     json.RawMessage // a name, or a number in the head
	User     string
	Text     string
	CPU      int64
	Memory   int64
	GPU      int64
	Priority int64
}

// podRow is a row of WritePods.
type podRow struct {
	podLine
	node    string
	at      map[string]float64 // instants of events
	outcome string
}

// WritePods writes a row of CSV for each pod of a journal, in the order of submission: requests,
// node, the instants in seconds, and the outcome. Pods are told apart by name.
func WritePods(w io.Writer, journal io.Reader, name string) error {
	var rows []*podRow
	byName := map[string]*podRow{}
	err := eachLine(journal, name, func(number int, line []byte) error {
		if !bytes.HasPrefix(line, []byte(`{"t":`)) {
			return nil
		}
		var e podLine
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("%s:%d: %w", name, number, err)
		}
		if e.Event == sim.Submitted.String() {
			byName[e.Pod] = &podRow{podLine: e, at: map[string]float64{}, outcome: "pending"}
			rows = append(rows, byName[e.Pod])
		}
		if row := byName[e.Pod]; row != nil {
			if err := row.apply(e); err != nil {
				return fmt.Errorf("%s:%d: %w", name, number, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	out := csv.NewWriter(w)
	kinds := []sim.EventKind{sim.Submitted, sim.Bound, sim.Pulled, sim.Started, sim.ReadyNow, sim.Ended}
	head := []string{"pod", "user", "priority", "cpu_milli", "memory_bytes", "gpu_milli", "node", "outcome", "reason"}
	for _, kind := range kinds {
		head = append(head, kind.String())
	}
	_ = out.Write(head) // Error returns the first error
	for _, row := range rows {
		record := []string{
			row.Pod, row.User, strconv.FormatInt(row.Priority, 10), strconv.FormatInt(row.CPU, 10), strconv.FormatInt(row.Memory, 10),
			strconv.FormatInt(row.GPU, 10), row.node, row.outcome, row.Text,
		}
		for _, kind := range kinds {
			text := ""
			if at, has := row.at[kind.String()]; has {
				text = number(at)
			}
			record = append(record, text)
		}
		_ = out.Write(record)
	}
	out.Flush()
	return out.Error()
}

// apply notes an event. A restart on the same node replaces the instants of the first start.
func (r *podRow) apply(e podLine) error {
	r.at[e.Event] = e.T
	switch e.Event {
	case sim.Bound.String():
		r.outcome = "running"
		return json.Unmarshal(e.Node, &r.node)
	case sim.Dropped.String():
		r.outcome = "dropped"
	case sim.Ended.String():
		r.outcome, r.Text = "succeeded", e.Text
		if e.Text != "" {
			r.outcome = "evicted"
		}
	}
	return nil
}

// number formats a number without loss.
func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
