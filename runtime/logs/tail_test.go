// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// readText is Read for a single file in memory.
func readText(t *testing.T, text string, tail int64) *said {
	t.Helper()
	got := &said{}
	out := output{writers: [2]io.Writer{writer{got, Stdout}, writer{got, Stderr}}, limit: -1}
	b := &backward{file: strings.NewReader(text), size: int64(len(text)), want: tail, wants: out.wants}
	begin, err := b.run()
	require.NoError(t, err)
	d := newDecoder()
	d.reset(strings.NewReader(text[begin.offset:]), begin.offset)
	out.first = begin.first
	for {
		e, err := d.next()
		if err != nil {
			if e, ok := d.last(); ok {
				require.NoError(t, out.add(e))
			}
			require.NoError(t, out.finish())
			return got
		}
		require.NoError(t, out.add(e))
	}
}

func FuzzTail(f *testing.F) {
	f.Add(entryLine(Stdout, "P", "a")+"junk\n"+entryLine(Stderr, "F", "b")+entryLine(Stdout, "F", "c"), uint8(2))
	f.Add(`{"log":"a\n","stream":"stdout","time":"2026-07-01T12:00:00Z"}`+"\n\n"+entryLine(Stdout, "P:"+strings.Repeat("x", 300), "a"), uint8(3))
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		if len(text) >= maxEntry {
			return // a line may be cut
		}
		tail := int64(n % 8)
		want := naiveRead([]string{text}, Options{Tail: &tail}, map[Stream]bool{Stdout: true, Stderr: true})
		require.Equal(t, want.parts, readText(t, text, tail).parts)
	})
}

// counting counts the bytes read.
type counting struct {
	io.ReaderAt
	n int64
}

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	c.n += int64(n)
	return n, err
}

// The beginning of a line in pieces is looked for, but not in all of the file.
func TestTailLooksBackSoFarOnly(t *testing.T) {
	others := strings.Repeat(entryLine(Stderr, "F", strings.Repeat("x", 100)), 50_000)
	text := others + entryLine(Stdout, "P", "a") + entryLine(Stderr, "F", "x") + entryLine(Stdout, "F", "b")
	file := &counting{ReaderAt: strings.NewReader(text)}
	b := &backward{file: file, size: int64(len(text)), want: 1, wants: func(Stream) bool { return true }}
	begin, err := b.run()
	require.NoError(t, err)
	piece := int64(len(others))
	require.Equal(t, place{offset: piece, first: [2]int64{Stdout: piece, Stderr: int64(len(text))}, lines: 1}, begin)
	require.Less(t, file.n, int64(maxLine+2*block))
}

func TestTailOfLongJSON(t *testing.T) {
	line := func(text string) string {
		return fmt.Sprintf(`{"log":"%s\n","stream":"stdout","time":"%s"}`+"\n", text, noon().Format(time.RFC3339Nano))
	}
	text := line("a") + line(strings.Repeat("b", 16<<10)) + line(strings.Repeat("c", block)) + line("d")
	require.Equal(t, []string{"0:" + strings.Repeat("c", block) + "\nd\n"}, readText(t, text, 2).parts)
	require.Equal(t, []string{"0:" + strings.Repeat("b", 16<<10) + "\n" + strings.Repeat("c", block) + "\nd\n"}, readText(t, text, 3).parts)
}

// A line that begins in a file and ends in the next is a single line.
func TestTailCountsALineInTwoFilesOnce(t *testing.T) {
	for _, compressed := range []bool{false, true} {
		files := []string{
			entryLine(Stdout, "F", "v") + entryLine(Stdout, "F", "w") + entryLine(Stdout, "P", "a"),
			entryLine(Stdout, "F", "b") + entryLine(Stdout, "F", "c"),
		}
		path := writeFiles(t, t.TempDir(), files, func(int) bool { return compressed })
		three := int64(3)
		got, _, err := read(t, Request{Path: path, Options: Options{Tail: &three}})
		require.NoError(t, err)
		require.Equal(t, "w\nab\nc\n", got)
	}
}

func TestTailOfATornFile(t *testing.T) {
	for _, compressed := range []bool{false, true} {
		torn := strings.TrimSuffix(entryLine(Stdout, "F", "a")+entryLine(Stdout, "F", "torn"), "\n")
		path := writeFiles(t, t.TempDir(), []string{torn, entryLine(Stdout, "F", "c")}, func(int) bool { return compressed })
		two := int64(2)
		got, _, err := read(t, Request{Path: path, Options: Options{Tail: &two}})
		require.NoError(t, err)
		require.Equal(t, "torn\nc\n", got)
	}
}

// huge is a line in pieces that is too long to be put together.
func huge(at time.Time) string {
	piece := fmt.Sprintf("%s stdout P %s\n", at.Format(time.RFC3339Nano), strings.Repeat("x", 16<<10))
	return strings.Repeat(piece, 2*maxLine/(16<<10)) + entryLine(Stdout, "F", "")
}

func TestHugeLinesThatAreNotWanted(t *testing.T) {
	text := huge(noon().Add(-time.Second)) + entryLine(Stdout, "F", "a") + entryLine(Stdout, "F", "b")
	path := writeFiles(t, t.TempDir(), []string{text, ""}, func(int) bool { return true })
	two := int64(2)
	for _, o := range []Options{{Tail: &two}, {Since: noon()}} {
		got, _, err := read(t, Request{Path: path, Options: o})
		require.NoError(t, err)
		require.Equal(t, "a\nb\n", got)
	}
}

func TestHugeEntries(t *testing.T) {
	long := strings.Repeat("x", maxEntry+10)
	head := len(entryLine(Stdout, "F", "")) - 1
	for name, tc := range map[string]struct{ text, want string }{
		"a long piece":                   {entryLine(Stdout, "P", long) + entryLine(Stdout, "F", "end"), long + "end\n"},
		"one that just fits, not ended":  {strings.TrimSuffix(entryLine(Stdout, "F", long[:maxEntry-head]), "\n"), long[:maxEntry-head] + "\n"},
		"one that just fits, and ended":  {entryLine(Stdout, "F", long[:maxEntry-head]), long[:maxEntry-head] + "\n"},
		"one that fits with its newline": {entryLine(Stdout, "F", long[:maxEntry-head-1]), long[:maxEntry-head-1] + "\n"},
	} {
		require.Equal(t, []string{"0:" + tc.want}, readText(t, tc.text, 9).parts, name)
	}
}

func TestOpenRotatedFindsWhatWasCompressedMeanwhile(t *testing.T) {
	path := writeFiles(t, t.TempDir(), []string{"text", ""}, func(int) bool { return true })
	o, err := openRotated(path, rotated{stamp: "20260701-120000"})
	require.NoError(t, err)
	defer o.close()
	src, err := o.from(0)
	require.NoError(t, err)
	raw, err := io.ReadAll(src)
	require.NoError(t, err)
	require.Equal(t, "text", string(raw))
	_, err = openRotated(path, rotated{stamp: "20260701-130000"})
	require.ErrorIs(t, err, os.ErrNotExist)
}
