// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/casetest"
)

// pieceSize is where container engines cut a line.
const pieceSize = 16 << 10

// longLine returns the log entries of one line of size bytes, cut as container engines cut it.
// Its text begins with name, so that a lost beginning shows.
func longLine(stream Stream, name string, size int) (entries []string, text string) {
	text = name + strings.Repeat("x", size-len(name))
	for rest := text; ; rest = rest[pieceSize:] {
		if len(rest) <= pieceSize {
			return append(entries, entryLine(stream, "F", rest)), text
		}
		entries = append(entries, entryLine(stream, "P", rest[:pieceSize]))
	}
}

// interleave mixes the entries of two streams, a few of each at a time.
func interleave(r *rand.Rand, a, b []string) string {
	var out strings.Builder
	for len(a)+len(b) > 0 {
		from := &a
		if len(a) == 0 || len(b) > 0 && r.IntN(2) == 0 {
			from = &b
		}
		n := min(len(*from), 1+r.IntN(3))
		out.WriteString(strings.Join((*from)[:n], ""))
		*from = (*from)[n:]
	}
	return out.String()
}

// byStream returns the text of each stream.
func byStream(parts []string) (out [2]string) {
	for _, part := range parts {
		out[part[0]-'0'] += part[2:]
	}
	return out
}

// Tail returns lines whole, however long they are, from a plain and from a compressed file.
func TestTailKeepsTheBeginningOfALongLine(t *testing.T) {
	sizes := []int{maxLine - 1, maxLine, maxLine + 1, 300 << 10}
	if !casetest.Raced {
		sizes = append(sizes, 1<<20, 5<<20+7)
	}
	for _, size := range sizes {
		for _, compressed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d bytes, compressed %t", size, compressed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(256, uint64(size)))
				unwanted, _ := longLine(Stdout, "before", size)
				out, outText := longLine(Stdout, "out", size)
				err, errText := longLine(Stderr, "err", size)
				text := strings.Join(unwanted, "") + interleave(r, out, err)
				files := []string{text}
				if compressed {
					files = []string{text, ""}
				}
				path := writeFiles(t, t.TempDir(), files, func(int) bool { return true })
				two := int64(2)
				got := &said{}
				result, readErr := Read(t.Context(), Request{Path: path, Options: Options{Tail: &two},
					Stdout: writer{got, Stdout}, Stderr: writer{got, Stderr}})
				require.NoError(t, readErr)
				require.Equal(t, int64(2), result.Lines)
				texts := byStream(got.parts)
				require.True(t, texts[Stdout] == outText+"\n", "stdout begins %.10q, %d bytes", texts[Stdout], len(texts[Stdout]))
				require.True(t, texts[Stderr] == errText+"\n", "stderr begins %.10q, %d bytes", texts[Stderr], len(texts[Stderr]))
			})
		}
	}
}

// Lines of all lengths on both streams, in files of which some are compressed.
func TestTailOfLongLinesAgreesWithTheNaiveOne(t *testing.T) {
	r := rand.New(rand.NewPCG(256<<10, 16))
	sizes := []int{3, 100, pieceSize, pieceSize + 1, maxLine, maxLine + 1, 300 << 10, 1 << 20}
	for i := range casetest.Rounds(60) {
		var files []string
		for range 1 + r.IntN(2) {
			var entries [2][]string
			for n := range 2 + r.IntN(8) {
				s := Stream(r.IntN(2))
				line, _ := longLine(s, fmt.Sprintf("%d", n), sizes[r.IntN(len(sizes))])
				entries[s] = append(entries[s], line...)
			}
			files = append(files, interleave(r, entries[Stdout], entries[Stderr]))
		}
		path := writeFiles(t, t.TempDir(), files, func(int) bool { return r.IntN(2) == 0 })
		for range 3 {
			tail := int64(r.IntN(12))
			wanted := map[Stream]bool{Stdout: r.IntN(4) > 0, Stderr: r.IntN(4) > 0}
			got := &said{}
			req := Request{Path: path, Options: Options{Tail: &tail}}
			if wanted[Stdout] {
				req.Stdout = writer{got, Stdout}
			}
			if wanted[Stderr] {
				req.Stderr = writer{got, Stderr}
			}
			_, err := Read(t.Context(), req)
			require.NoError(t, err)
			want, have := byStream(naiveRead(files, req.Options, wanted).parts), byStream(got.parts)
			for s := range want {
				require.True(t, want[s] == have[s], "input %d, tail %d, %s: want %d bytes that begin %.5q, got %d that begin %.5q",
					i, tail, Stream(s), len(want[s]), want[s], len(have[s]), have[s])
			}
		}
	}
}
