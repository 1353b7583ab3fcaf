// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func noon() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 1, time.UTC) }

func TestParseEntry(t *testing.T) {
	for _, tc := range []struct {
		name, line string
		want       Entry
	}{
		{"full", "2026-07-01T12:00:00.000000001Z stdout F the text", Entry{noon(), Stdout, false, []byte("the text"), 0}},
		{"with its newline", "2026-07-01T12:00:00.000000001Z stdout F the text\n", Entry{noon(), Stdout, false, []byte("the text"), 0}},
		{"partial", "2026-07-01T12:00:00.000000001Z stderr P half", Entry{noon(), Stderr, true, []byte("half"), 0}},
		{"more tags", "2026-07-01T12:00:00.000000001Z stderr P:x:y  two spaces ", Entry{noon(), Stderr, true, []byte(" two spaces "), 0}},
		{"empty", "2026-07-01T12:00:00.000000001Z stdout F ", Entry{noon(), Stdout, false, []byte{}, 0}},
		{"zone", "2026-07-01T14:00:00.000000001+02:00 stdout F x", Entry{noon(), Stdout, false, []byte("x"), 0}},
		{"binary", "2026-07-01T12:00:00.000000001Z stdout F \xff\x00\r", Entry{noon(), Stdout, false, []byte("\xff\x00\r"), 0}},
		{"docker", `{"log":"the \"text\"\n","stream":"stdout","time":"2026-07-01T12:00:00.000000001Z"}`,
			Entry{noon(), Stdout, false, []byte(`the "text"`), 0}},
		{"docker partial", `{"log":"half","stream":"stderr","time":"2026-07-01T12:00:00.000000001Z"}`, Entry{noon(), Stderr, true, []byte("half"), 0}},
		{"docker with attributes", `{"log":"\n","stream":"stdout","attrs":{"a":"b"},"time":"2026-07-01T12:00:00.000000001Z"}`,
			Entry{noon(), Stdout, false, []byte{}, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseEntry([]byte(tc.line))
			require.NoError(t, err)
			require.True(t, tc.want.Time.Equal(got.Time))
			got.Time = tc.want.Time
			require.Equal(t, tc.want, got)
		})
	}
}

func TestParseEntryRefuses(t *testing.T) {
	for _, line := range []string{
		"", "\n", "text", "2026-07-01T12:00:00Z", "2026-07-01T12:00:00Z stdout", "2026-07-01T12:00:00Z stdout F",
		"2026-07-01T12:00:00Z stdin F x", "2026-07-01T12:00:00Z stdout X x", "2026-07-01T12:00:00Z stdout FF x",
		"2026-07-01 12:00:00Z stdout F x", "yesterday stdout F x", "2026-07-01T12:00:00Z  stdout F x", " stdout F x",
		"{", "{}", `{"log":"x\n","stream":"stdout"}`, `{"stream":"stdout","time":"2026-07-01T12:00:00Z"}`,
		`{"log":"x","stream":"no","time":"2026-07-01T12:00:00Z"}`, `{"log":"x\n","stream":"stdout","time":"now"}`,
	} {
		_, err := ParseEntry([]byte(line))
		require.ErrorIs(t, err, ErrMalformed, "%q", line)
		require.Equal(t, ErrMalformed.Error(), err.Error(), "the text may be secret")
	}
}

func FuzzParseEntry(f *testing.F) {
	f.Add([]byte("2026-07-01T12:00:00.000000001Z stdout F the text"))
	f.Add([]byte(`{"log":"the text\n","stream":"stdout","time":"2026-07-01T12:00:00.000000001Z"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := ParseEntry(line)
		if err != nil || bytes.ContainsRune(e.Text, '\n') {
			return
		}
		tag := "F"
		if e.Partial {
			tag = "P"
		}
		stamp, err := e.Time.MarshalText()
		if err != nil {
			return // a year with five digits
		}
		again, err := ParseEntry(fmt.Appendf(nil, "%s %s %s %s", stamp, e.Stream, tag, e.Text))
		require.NoError(t, err)
		assert.True(t, e.Time.Equal(again.Time))
		assert.Equal(t, e.Stream, again.Stream)
		assert.Equal(t, e.Partial, again.Partial)
		assert.Equal(t, string(e.Text), string(again.Text))
	})
}

// drip gives a few bytes at a time.
type drip struct {
	text string
	n    int
}

func (d *drip) Read(p []byte) (int, error) {
	n := copy(p, d.text[:min(d.n, len(d.text))])
	d.text = d.text[n:]
	if n == 0 {
		return strings.NewReader("").Read(p)
	}
	return n, nil
}

// FuzzDecoder checks that the sizes of reads and the releases of the buffer make no difference, and
// that memory stays bounded.
func FuzzDecoder(f *testing.F) {
	f.Add("2026-07-01T12:00:00Z stdout F a\n2026-07-01T12:00:00Z stdout P b\n\nbad\n2026-07-01T12:00:00Z stderr F c", uint8(3))
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		all := func(step int, between func(*decoder)) (out []string, bad int64) {
			d := newDecoder()
			d.reset(&drip{text, step}, 0)
			for {
				between(d)
				e, err := d.next()
				if err != nil {
					if e, ok := d.last(); ok {
						out = append(out, fmt.Sprint(e.offset, e.Stream, e.Partial, string(e.Text)))
					}
					require.LessOrEqual(t, len(d.buf), maxEntry)
					return out, d.malformed
				}
				out = append(out, fmt.Sprint(e.offset, e.Stream, e.Partial, string(e.Text)))
			}
		}
		once, badOnce := all(len(text)+1, func(*decoder) {})
		slowly, badSlowly := all(int(n)%7+1, (*decoder).shrink)
		require.Equal(t, once, slowly)
		require.Equal(t, badOnce, badSlowly)
	})
}
