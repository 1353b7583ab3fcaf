// SPDX-License-Identifier: Apache-2.0

// Package exposition writes metrics in the text format of Prometheus, without a registry: thousands of
// series of a snapshot are written without storing them.
package exposition

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"time"
)

// ContentType is the media type of the format.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Types of metrics.
const (
	Counter = "counter"
	Gauge   = "gauge"
)

// Labels are labels in the text form of Prometheus. Labels of many series are rendered only once. The
// zero value has no labels.
type Labels struct{ text string }

// With returns the labels and further ones, given as names and values in turn. Names must be valid
// and different. Values may be any text.
func (l Labels) With(pairs ...string) Labels {
	size := len(l.text)
	for i, text := range pairs {
		size += len(text) + 2*(1+i%2) // the signs around names and values, if no value is escaped
	}
	var b strings.Builder
	b.Grow(size)
	b.WriteString(l.text)
	for i := 0; i+1 < len(pairs); i += 2 {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(pairs[i])
		b.WriteString(`="`)
		escape(&b, pairs[i+1])
		b.WriteByte('"')
	}
	return Labels{b.String()}
}

func escape(b *strings.Builder, value string) {
	if !strings.ContainsAny(value, "\\\"\n") {
		b.WriteString(strings.ToValidUTF8(value, "\uFFFD"))
		return
	}
	escaper.WriteString(b, strings.ToValidUTF8(value, "\uFFFD"))
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// Writer writes metrics. The first error of the destination ends the output, and Flush returns it.
type Writer struct {
	to   *bufio.Writer
	name string
	head string // of the metric, until its first sample
	line []byte
}

// NewWriter returns a Writer. The caller calls Flush at the end.
func NewWriter(to io.Writer) *Writer { return &Writer{to: bufio.NewWriterSize(to, 32<<10)} }

// Metric begins a metric. All samples of a metric follow. A metric without samples is left out.
func (w *Writer) Metric(name, kind, help string) {
	w.name = name
	w.head = "# HELP " + name + " " + helpEscaper.Replace(help) + "\n# TYPE " + name + " " + kind + "\n"
}

var helpEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`)

// Sample writes a value of the metric. A time that is not zero is the time of the measurement.
func (w *Writer) Sample(l Labels, value float64, at time.Time) {
	w.SampleWith(l, Labels{}, value, at)
}

// SampleWith is like Sample, with further labels, which have other names.
func (w *Writer) SampleWith(l, more Labels, value float64, at time.Time) {
	w.line = append(w.line[:0], w.head...)
	w.head = ""
	w.line = append(w.line, w.name...)
	if l.text != "" || more.text != "" {
		w.line = append(w.line, '{')
		w.line = append(w.line, l.text...)
		if l.text != "" && more.text != "" {
			w.line = append(w.line, ',')
		}
		w.line = append(w.line, more.text...)
		w.line = append(w.line, '}')
	}
	w.line = append(w.line, ' ')
	w.line = strconv.AppendFloat(w.line, value, 'g', -1, 64)
	if !at.IsZero() {
		w.line = append(w.line, ' ')
		w.line = strconv.AppendInt(w.line, at.UnixMilli(), 10)
	}
	w.line = append(w.line, '\n')
	_, _ = w.to.Write(w.line) // Flush returns the error
}

// Flush writes the rest, and returns the first error of the destination.
func (w *Writer) Flush() error { return w.to.Flush() }
