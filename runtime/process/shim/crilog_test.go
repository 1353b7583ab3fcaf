// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var moment = time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.FixedZone("east", 3600))

const head = "2026-01-02T02:04:05.6Z stdout "

// collect runs entries over the pieces of one output.
func collect(pieces ...string) string {
	e := entries{stream: "stdout"}
	var out []byte
	for _, p := range pieces {
		e.add(moment, []byte(p))
		out = append(out, e.take()...)
	}
	e.end(moment)
	return string(append(out, e.take()...))
}

// model is entries, written again without any care for cost.
func model(output string) string {
	var b strings.Builder
	for line := range strings.SplitAfterSeq(output, "\n") {
		text, whole := strings.CutSuffix(line, "\n")
		if text == "" && !whole {
			continue
		}
		for len(text) > maxLine {
			b.WriteString(head + "P " + text[:maxLine] + "\n")
			text = text[maxLine:]
		}
		b.WriteString(head + "F " + text + "\n")
	}
	return b.String()
}

func TestEntries(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for _, tt := range []struct {
		name   string
		pieces []string
		want   string
	}{
		{"nothing", nil, ""},
		{"empty line", []string{"\n"}, head + "F \n"},
		{"a line in pieces", []string{"a", "b", "\n"}, head + "F ab\n"},
		{"lines in one piece", []string{"a\nb\n\n"}, head + "F a\n" + head + "F b\n" + head + "F \n"},
		{"no newline at the end", []string{"a\nb"}, head + "F a\n" + head + "F b\n"},
		{"as long as can be", []string{long + "\n"}, head + "F " + long + "\n"},
		{"one longer", []string{long + "y\n"}, head + "P " + long + "\n" + head + "F y\n"},
		{"full before its newline is seen", []string{long, "\n"}, head + "P " + long + "\n" + head + "F \n"},
		{"full at the end", []string{long}, head + "P " + long + "\n" + head + "F \n"},
		{"bytes of any kind", []string{"\x00\xff\r\n"}, head + "F \x00\xff\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, collect(tt.pieces...)) })
	}
}

// joined is the output that a log stands for.
func joined(t *testing.T, log string) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(log) {
		text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), head)
		require.True(t, ok, "%q", line)
		require.LessOrEqual(t, len(text), maxLine+2)
		b.WriteString(text[2:])
		if text[0] == 'F' {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// TestEntriesAgreeWithModel: however the output is cut, the same lines are
// logged; uncut, by the same entries.
func TestEntriesAgreeWithModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var text strings.Builder
		for range rng.IntN(12) {
			n := rng.IntN(30)
			if rng.IntN(3) == 0 {
				n = maxLine - 2 + rng.IntN(5) + rng.IntN(2)*maxLine
			}
			text.WriteString(strings.Repeat("z", n))
			text.WriteString([]string{"\n", "\n", ""}[rng.IntN(3)])
		}
		output := text.String()
		if strings.HasSuffix(output, "\n") { // a last line may fill up before its end is known
			require.True(t, model(output) == collect(output), "in one piece, entry by entry")
		}
		var pieces []string
		for rest := output; rest != ""; {
			n := 1 + rng.IntN(len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		require.True(t, joined(t, model(output)) == joined(t, collect(pieces...)), "in %d pieces", len(pieces))
	}
}

func TestTailKeepsWhatIsWrittenLast(t *testing.T) {
	l := newCRILog(io.Discard, 5)
	for _, raw := range []string{"1", "2", "3", "456"} {
		l.write([]byte(raw), []byte("entry\n"))
	}
	assert.Equal(t, "23456", l.tail())
}

func TestStreamsDoNotMixWithinALine(t *testing.T) {
	var out bytes.Buffer
	l := newCRILog(&out, 0)
	for _, name := range []string{"stdout", "stderr"} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		l.copy(&stream{entries: entries{stream: name}, from: r})
		go func() {
			defer w.Close()
			for i := range 2000 {
				_, _ = fmt.Fprintf(w, "%s line %d of many\n", name, i)
			}
		}()
	}
	l.wait()
	next := map[string]int{}
	for line := range strings.Lines(out.String()) {
		var at, stream, tag, word string
		var n int
		_, err := fmt.Sscanf(line, "%s %s %s %s line %d of many\n", &at, &stream, &tag, &word, &n)
		require.NoError(t, err, "%q", line)
		require.Equal(t, stream, word)
		require.Equal(t, next[stream], n)
		next[stream]++
	}
	assert.Equal(t, map[string]int{"stdout": 2000, "stderr": 2000}, next)
}

func BenchmarkEntries(b *testing.B) {
	data := []byte(strings.Repeat("a line of about forty characters in all\n", 400))
	e := entries{stream: "stdout"}
	now := time.Now()
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		e.add(now, data)
		e.take()
	}
}
