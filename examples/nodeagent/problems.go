// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"
)

// What the log says about files, in pairs: a file is not used, and that is over.
const (
	manifestNotUsed     = "manifest not used"
	manifestProblemOver = "manifest problem is over"
	objectsNotUsed      = "objects not used"
	objectsProblemOver  = "problem with objects is over"
)

// problems keeps the last warnings for the screen, each in one line that begins
// with what it is about; what is over is not shown any longer. It is a
// zapcore.Core, beside that of the log.
type problems struct {
	manifests string // files in this folder are shown without it

	mu struct {
		sync.Mutex
		last []problem
	}
}

type problem struct{ message, about, line string }

const problemsShown = 5

// Enabled says yes to what Check looks at.
func (p *problems) Enabled(level zapcore.Level) bool { return level >= zapcore.InfoLevel }

// With forgets the fields: a line for the screen is short.
func (p *problems) With([]zapcore.Field) zapcore.Core { return p }

// Sync does nothing; there is nothing behind the screen.
func (p *problems) Sync() error { return nil }

// Check takes warnings, and what says that one is over.
func (p *problems) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.Level >= zapcore.WarnLevel || e.Message == manifestProblemOver || e.Message == objectsProblemOver {
		return ce.AddCore(e, p)
	}
	return ce
}

// Write takes one entry of the log.
func (p *problems) Write(e zapcore.Entry, fields []zapcore.Field) error {
	about, why := p.read(fields)
	message := e.Message
	switch message {
	case manifestProblemOver:
		message = manifestNotUsed
	case objectsProblemOver:
		message = objectsNotUsed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.last = slices.DeleteFunc(p.mu.last, func(old problem) bool {
		return old.message == message && old.about == about
	})
	if message != e.Message {
		return nil
	}
	line := strings.Join(slices.DeleteFunc([]string{message, about, why}, func(s string) bool { return s == "" }), ": ")
	p.mu.last = append(p.mu.last, problem{message, about, oneLine(e.Time.Format(time.TimeOnly) + " " + line)})
	p.mu.last = p.mu.last[max(0, len(p.mu.last)-problemsShown):]
	return nil
}

// read tells which file or pod an entry is about, and everything else it says.
func (p *problems) read(fields []zapcore.Field) (about, why string) {
	said, keys := zapcore.NewMapObjectEncoder(), make([]string, 0, len(fields))
	for _, f := range fields {
		f.AddTo(said)
		keys = append(keys, f.Key)
	}
	for _, key := range []string{"file", "pod", "podUID"} {
		if about == "" && said.Fields[key] != nil {
			about = fmt.Sprint(said.Fields[key])
		}
	}
	if rel, err := filepath.Rel(p.manifests, about); err == nil && filepath.IsAbs(about) && filepath.IsLocal(rel) && rel != "." {
		about = rel
	}
	var parts []string
	for _, key := range keys {
		switch value := said.Fields[key]; key {
		case "", "file", "pod", "podUID", "state": // none, said already, or of no use here
		case "reason", "message", "error":
			parts = append(parts, fmt.Sprint(value))
		default:
			parts = append(parts, fmt.Sprintf("%s=%v", key, value))
		}
	}
	return about, strings.Join(parts, ": ")
}

// lines are the last problems, the latest last.
func (p *problems) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := make([]string, len(p.mu.last))
	for i, one := range p.mu.last {
		lines[i] = one.line
	}
	return lines
}
