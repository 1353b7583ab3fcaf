// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/keelson-dev/keelson/internal/failurelog"
)

// Log messages about files.
const (
	manifestNotUsed = "manifest not used"
	objectsNotUsed  = "objects not used"
)

// problems is a zapcore.Core that keeps the last warnings for the screen, in one line each. A line
// starts with the affected object. A line is removed when its problem is over, as failurelog.Ends says.
type problems struct {
	manifests string // the prefix that is cut off from file names

	mu struct {
		sync.Mutex
		last []problem
	}
}

type problem struct{ message, about, line string }

const problemsShown = 5

// Enabled implements zapcore.Core. It admits the levels that Check handles.
func (p *problems) Enabled(level zapcore.Level) bool { return level >= zapcore.InfoLevel }

// With implements zapcore.Core. It drops the fields, because lines on the screen are short.
func (p *problems) With([]zapcore.Field) zapcore.Core { return p }

// Sync implements zapcore.Core. There is no buffer.
func (p *problems) Sync() error { return nil }

// Check implements zapcore.Core. It selects warnings, and messages that can be about the end of a problem.
func (p *problems) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if p.Enabled(e.Level) {
		return ce.AddCore(e, p)
	}
	return ce
}

// Write implements zapcore.Core.
func (p *problems) Write(e zapcore.Entry, fields []zapcore.Field) error {
	ended := failurelog.Ended(fields)
	if ended == "" && e.Level < zapcore.WarnLevel {
		return nil
	}
	full, about, why := p.read(fields)
	message := cmp.Or(ended, e.Message)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.last = slices.DeleteFunc(p.mu.last, func(old problem) bool {
		return old.message == message && old.about == about
	})
	if ended != "" {
		return nil
	}
	place := about
	if rest, twice := strings.CutPrefix(why, full); twice && full != "" && strings.HasPrefix(rest, ":") {
		place, why = about+rest, "" // "file:line:column: reason"
	}
	line := strings.Join(slices.DeleteFunc([]string{message, place, why}, func(s string) bool { return s == "" }), ": ")
	p.mu.last = append(p.mu.last, problem{message, about, oneLine(e.Time.Format(time.TimeOnly) + " " + line)})
	p.mu.last = p.mu.last[max(0, len(p.mu.last)-problemsShown):]
	return nil
}

// read returns the file or pod of an entry, in full and as displayed, and the text of the other
// fields.
func (p *problems) read(fields []zapcore.Field) (full, about, why string) {
	said, keys := zapcore.NewMapObjectEncoder(), make([]string, 0, len(fields))
	for _, f := range fields {
		f.AddTo(said)
		keys = append(keys, f.Key)
	}
	for _, key := range []string{"file", "pod", "podUID", "source"} {
		if about == "" && said.Fields[key] != nil {
			about = fmt.Sprint(said.Fields[key])
		}
	}
	full = about
	if rel, err := filepath.Rel(p.manifests, about); err == nil && filepath.IsAbs(about) && filepath.IsLocal(rel) && rel != "." {
		about = rel
	}
	var parts []string
	for _, key := range keys {
		switch value := said.Fields[key]; key {
		case "", "file", "pod", "podUID", "source", "state": // empty, used above, or not helpful on the screen
		case "reason", "message", "error":
			parts = append(parts, fmt.Sprint(value))
		default:
			parts = append(parts, fmt.Sprintf("%s=%v", key, value))
		}
	}
	return full, about, strings.Join(parts, ": ")
}

// lines returns the last problems, latest last.
func (p *problems) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := make([]string, len(p.mu.last))
	for i, one := range p.mu.last {
		lines[i] = one.line
	}
	return lines
}
