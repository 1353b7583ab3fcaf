// SPDX-License-Identifier: Apache-2.0

// Package casetest helps tests with hundreds of cases, such as each fault in each call of a part. Notes of a case
// explain its failure. Under the race detector fewer cases are played: make test is quick, and make rounds plays all.
package casetest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Notes are what has happened since Begin. All methods are safe for concurrent use.
type Notes struct {
	mu    sync.Mutex
	began time.Time
	notes []note
}

type note struct {
	at   time.Duration
	text string
}

// Begin forgets all notes, and counts the time anew.
func (n *Notes) Begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.began, n.notes = time.Now(), nil
}

// Since returns the time from Begin to t; "-" for the zero time.
func (n *Notes) Since(t time.Time) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t.IsZero() {
		return "-"
	}
	return t.Sub(n.began).String()
}

// Note adds a note with the present time, on one line.
func (n *Notes) Note(format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notes = append(n.notes, note{time.Since(n.began), text})
}

// Lines returns the notes. Of more than limit notes, the middle is left out.
func (n *Notes) Lines(limit int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var lines strings.Builder
	for i, one := range n.notes {
		switch left := len(n.notes) - limit; {
		case left <= 0, i < limit-3, i >= len(n.notes)-3:
			fmt.Fprintf(&lines, "%v %s\n", one.at, one.text)
		case i == limit-3:
			fmt.Fprintf(&lines, "and %d others\n", left)
		}
	}
	return lines.String()
}

// Logger returns a logger that notes each entry with its errors.
func (n *Notes) Logger() *zap.Logger {
	return zap.New(zapcore.NewNopCore(), zap.WrapCore(func(c zapcore.Core) zapcore.Core { return &core{c, n} }))
}

type core struct {
	zapcore.Core
	notes *Notes
}

func (c *core) With([]zapcore.Field) zapcore.Core { return c }

func (c *core) Enabled(zapcore.Level) bool { return true }

func (c *core) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return to.AddCore(e, c)
}

func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	text := e.Level.String() + ": " + e.Message
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok {
			text += ": " + err.Error()
		}
	}
	c.notes.Note("%s", text)
	return nil
}
