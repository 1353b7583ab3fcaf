// SPDX-License-Identifier: Apache-2.0

// Package casetest helps tests with hundreds of cases, such as each fault in each call of a part. It records what happens
// in a case, and compares all cases with a file.
package casetest

import (
	"cmp"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

var whole = flag.String("cases", "", "write the whole text of all cases to this file, to compare two commits")

// Notes are what has happened since Begin. All methods are safe for concurrent use.
type Notes struct {
	// Replace maps parts of notes that differ from run to run to a replacement. Set it before the first note.
	Replace map[string]string

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

// Text returns text on one line, with the replacements.
func (n *Notes) Text(text string) string {
	for from, to := range n.Replace {
		text = strings.ReplaceAll(text, from, to)
	}
	return strings.ReplaceAll(text, "\n", "; ")
}

// Note adds a note with the present time.
func (n *Notes) Note(format string, args ...any) {
	text := n.Text(fmt.Sprintf(format, args...))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notes = append(n.notes, note{time.Since(n.began), text})
}

// Lines returns the notes in an order that does not depend on goroutines, each after prefix. Of more than limit notes, the
// middle is left out.
func (n *Notes) Lines(prefix string, limit int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	slices.SortFunc(n.notes, func(a, b note) int { return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.text, b.text)) })
	var lines strings.Builder
	for i, one := range n.notes {
		switch left := len(n.notes) - limit; {
		case left <= 0, i < limit-3, i >= len(n.notes)-3:
			fmt.Fprintf(&lines, "%s%v %s\n", prefix, one.at, one.text)
		case i == limit-3:
			fmt.Fprintf(&lines, "%sand %d others\n", prefix, left)
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

// Book has the cases of a file.
type Book struct {
	t            *testing.T
	file         string
	write        bool
	known        map[string]string // digest by name
	names        []string          // in the file
	cases, short strings.Builder
	played       []string
	differ       int
}

// Open reads the file of a Book. With write, the file is written anew at the end of the test.
func Open(t *testing.T, file string, write bool) *Book {
	t.Helper()
	b := &Book{t: t, file: file, write: write, known: map[string]string{}}
	text, err := os.ReadFile(file)
	if err != nil && !write {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(strings.TrimSpace(line), "== "); ok {
			at := strings.LastIndex(title, ": ")
			b.known[title[:at]] = title[at+2:]
			b.names = append(b.names, title[:at])
		}
	}
	return b
}

// tries is how often a case is played before its outcome counts as another outcome, because goroutines of the same instant
// have no order. enough is the number of such cases after which the test ends.
const tries, enough = 5, 5

// varies is the digest of a case that had several outcomes when the file was written. Any outcome is right.
const varies = "varies"

// Play plays a case. The result of play is a text for the file, and the whole text, of which the file has a digest.
func (b *Book) Play(name string, play func() (shown, text string)) {
	b.t.Helper()
	var shown, text, digest string
	for try := range tries {
		before := digest
		shown, text = play()
		sum := sha256.Sum256([]byte(text))
		digest = fmt.Sprintf("%x", sum[:4])
		switch {
		case b.write && try > 0 && digest != before:
			shown, text, digest = "", "", varies
		case b.write:
			continue
		case b.known[name] == varies:
			shown, text, digest = "", "", varies
		case b.known[name] != digest && try == tries-1:
			b.t.Errorf("another outcome of %s: %s\n%s", name, digest, text)
			b.differ++
		case b.known[name] != digest:
			continue
		}
		break
	}
	b.played = append(b.played, name)
	fmt.Fprintf(&b.short, "== %s: %s\n%s", name, digest, shown)
	fmt.Fprintf(&b.cases, "== %s: %s\n%s", name, digest, text)
	if b.differ >= enough && *whole == "" {
		b.t.Fatalf("and perhaps others; with -cases=FILE at the earlier commit you see the outcomes there. If they are right, run the test with -rewrite")
	}
}

// Close compares the names of the cases with the file, or writes the file.
func (b *Book) Close() {
	b.t.Helper()
	if *whole != "" {
		if err := os.WriteFile(*whole, []byte(b.cases.String()), 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
	switch {
	case b.write:
		if err := os.WriteFile(b.file, []byte(b.short.String()), 0o644); err != nil {
			b.t.Fatal(err)
		}
	case !slices.Equal(b.played, b.names):
		b.t.Errorf("%s has other cases: run the test with -rewrite", b.file)
	}
}
