// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// said is the written text of each stream, in the order of writing.
type said struct {
	parts []string // "1:text": the stream and the text
}

func (s *said) add(stream Stream, text string) {
	if text == "" {
		return
	}
	tag := fmt.Sprintf("%d:", stream)
	if n := len(s.parts); n > 0 && strings.HasPrefix(s.parts[n-1], tag) {
		s.parts[n-1] += text
		return
	}
	s.parts = append(s.parts, tag+text)
}

// writer is the end of one stream.
type writer struct {
	to     *said
	stream Stream
}

func (w writer) Write(p []byte) (int, error) {
	w.to.add(w.stream, string(p))
	return len(p), nil
}

// naiveLine is a line with all of its pieces.
type naiveLine struct {
	stream   Stream
	at       time.Time
	text     string
	complete bool
	end      int // number of its last entry
}

// naiveLines puts the lines of some files together, in the order in which they
// end.
func naiveLines(files []string, wanted map[Stream]bool) []*naiveLine {
	var done []*naiveLine
	open := map[Stream]*naiveLine{}
	i := 0
	for _, text := range files {
		for _, raw := range strings.Split(text, "\n") {
			e, err := ParseEntry([]byte(raw))
			if err != nil || !wanted[e.Stream] {
				continue
			}
			i++
			l := open[e.Stream]
			if l == nil {
				l = &naiveLine{stream: e.Stream, at: e.Time}
				open[e.Stream] = l
			}
			l.text, l.end = l.text+string(e.Text), i
			if !e.Partial {
				l.complete = true
				done = append(done, l)
				delete(open, e.Stream)
			}
		}
	}
	for _, s := range []Stream{Stdout, Stderr} {
		if l := open[s]; l != nil {
			done = append(done, l)
		}
	}
	return done
}

// naiveRead is Read, with everything in memory. files are the rotated ones,
// oldest first, and the log itself.
func naiveRead(files []string, o Options, wanted map[Stream]bool) *said {
	lines := naiveLines(files, wanted)
	if o.Tail != nil {
		lines = naiveTail(files, int(*o.Tail), wanted)
	}
	var text []struct {
		stream Stream
		text   string
	}
	for _, l := range lines {
		if l.at.Before(o.Since) {
			continue
		}
		s := l.text
		if o.Timestamps {
			s = l.at.UTC().Format("2006-01-02T15:04:05.000000000Z07:00") + " " + s
		}
		if l.complete {
			s += "\n"
		}
		text = append(text, struct {
			stream Stream
			text   string
		}{l.stream, s})
	}
	left := 1 << 40
	if o.LimitBytes != nil {
		left = int(*o.LimitBytes)
	}
	out := &said{}
	for _, t := range text {
		n := min(left, len(t.text))
		out.add(t.stream, t.text[:n])
		left -= n
	}
	return out
}

// naiveTail reads as many files as needed, and returns the lines that end last.
func naiveTail(files []string, n int, wanted map[Stream]bool) []*naiveLine {
	for k := len(files) - 1; ; k-- {
		lines := naiveLines(files[k:], wanted)
		if len(lines) < n && k > 0 {
			continue
		}
		drop := map[*naiveLine]bool{}
		for len(lines)-len(drop) > n {
			var first *naiveLine
			for _, l := range lines {
				if !drop[l] && (first == nil || l.end < first.end) {
					first = l
				}
			}
			drop[first] = true
		}
		var out []*naiveLine
		for _, l := range lines {
			if !drop[l] {
				out = append(out, l)
			}
		}
		return out
	}
}

// randomLog is the text of a log file, one piece after the other.
func randomLog(r *rand.Rand, at *time.Time) string {
	var b strings.Builder
	for range r.IntN(12) {
		*at = at.Add(time.Duration(r.IntN(3)) * time.Second)
		stamp := at.Format(time.RFC3339Nano)
		stream := []string{"stdout", "stdout", "stderr"}[r.IntN(3)]
		text := strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(8))
		switch r.IntN(12) {
		case 0:
			b.WriteString([]string{"\n", "not a log entry\n", stamp + " stdout\n", "{\"log\":\n"}[r.IntN(4)])
		case 1, 2, 3:
			fmt.Fprintf(&b, "%s %s P %s\n", stamp, stream, text)
		case 4:
			fmt.Fprintf(&b, `{"log":"%s\n","stream":"%s","time":"%s"}`+"\n", text, stream, stamp)
		case 5:
			fmt.Fprintf(&b, `{"log":"%s","stream":"%s","time":"%s"}`+"\n", text, stream, stamp)
		case 6:
			fmt.Fprintf(&b, "%s %s F %s\n", stamp, stream, strings.Repeat(text, r.IntN(300)))
		default:
			fmt.Fprintf(&b, "%s %s F %s\n", stamp, stream, text)
		}
	}
	s := b.String()
	if r.IntN(8) == 0 && s != "" {
		s = strings.TrimSuffix(s, "\n") // torn
	}
	return s
}

// writeFiles writes rotated files and the log itself, and returns its path.
func writeFiles(t testing.TB, dir string, files []string, compressed func(i int) bool) string {
	t.Helper()
	path := filepath.Join(dir, "0.log")
	for i, text := range files {
		name := path
		if i < len(files)-1 {
			name = fmt.Sprintf("%s.20260701-1200%02d", path, i)
		}
		raw := []byte(text)
		if i < len(files)-1 && compressed(i) {
			name += ".gz"
			raw = zip(t, text)
		}
		require.NoError(t, os.WriteFile(name, raw, 0o600))
	}
	return path
}

func zip(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestReadAgreesWithTheNaiveOne(t *testing.T) {
	r := rand.New(rand.NewPCG(59902, 1))
	for i := range 500 {
		at := noon()
		var files []string
		for range 1 + r.IntN(3) {
			files = append(files, randomLog(r, &at))
		}
		splits := r.IntN(4) == 0 // lines in pieces may be in two files
		for i := range len(files) - 1 {
			if !splits {
				stamp := at.Format(time.RFC3339Nano)
				files[i] += fmt.Sprintf("\n%s stdout F x\n%s stderr F x\n", stamp, stamp)
			}
		}
		dir := t.TempDir()
		path := writeFiles(t, dir, files, func(int) bool { return r.IntN(2) == 0 })
		for range 4 {
			var o Options
			o.Timestamps = r.IntN(3) == 0
			if n := int64(r.IntN(15)); r.IntN(3) > 0 && !splits { // it may cut off such a line's beginning
				o.Tail = &n
			}
			if n := int64(1 + r.IntN(200)); r.IntN(4) == 0 {
				o.LimitBytes = &n
			}
			if r.IntN(4) == 0 {
				o.Since = noon().Add(time.Duration(r.IntN(20)) * time.Second)
			}
			wanted := map[Stream]bool{Stdout: r.IntN(4) > 0, Stderr: r.IntN(4) > 0}
			got := &said{}
			req := Request{Path: path, Options: o}
			if wanted[Stdout] {
				req.Stdout = writer{got, Stdout}
			}
			if wanted[Stderr] {
				req.Stderr = writer{got, Stderr}
			}
			_, err := Read(t.Context(), req)
			require.NoError(t, err)
			want := naiveRead(files, o, wanted)
			if fmt.Sprint(want.parts) != fmt.Sprint(got.parts) {
				t.Fatalf("input %d: tail %v limit %v since %v wanted %v\nfiles %q\nwant %q\n got %q",
					i, deref(o.Tail), deref(o.LimitBytes), o.Since, wanted, files, want.parts, got.parts)
			}
		}
		require.NoError(t, os.RemoveAll(dir))
	}
}

func deref(n *int64) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(*n)
}
