// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// entryLine is one line of a log file.
func entryLine(stream Stream, tag, text string) string {
	return fmt.Sprintf("%s %s %s %s\n", noon().Format(time.RFC3339Nano), stream, tag, text)
}

func read(t *testing.T, req Request) (string, Result, error) {
	t.Helper()
	var b bytes.Buffer
	req.Stdout, req.Stderr = &b, &b
	result, err := Read(t.Context(), req)
	return b.String(), result, err
}

// A link to a log, as the kubelet makes them in /var/log/containers, leads to its rotated
// files as well, also while the log itself is missing.
func TestReadOfALinkFindsRotatedFiles(t *testing.T) {
	dir := t.TempDir()
	log := writeFiles(t, dir, []string{entryLine(Stdout, "F", "old"), entryLine(Stdout, "F", "new")}, func(int) bool { return false })
	require.NoError(t, os.Mkdir(filepath.Join(dir, "containers"), 0o700))
	absolute, relative := filepath.Join(dir, "containers", "a.log"), filepath.Join(dir, "containers", "b.log")
	require.NoError(t, os.Symlink(log, absolute))
	require.NoError(t, os.Symlink("a.log", relative))
	for _, path := range []string{absolute, relative} {
		got, _, err := read(t, Request{Path: path})
		require.NoError(t, err)
		require.Equal(t, "old\nnew\n", got)
	}
	require.NoError(t, os.Remove(log))
	got, _, err := read(t, Request{Path: relative})
	require.NoError(t, err)
	require.Equal(t, "old\n", got)

	circle := filepath.Join(dir, "circle")
	require.NoError(t, os.Symlink(circle, circle))
	_, _, err = read(t, Request{Path: circle})
	require.Error(t, err)
}

// Rotated files are read, too (kubernetes#59902).
func TestUpstream59902RotatedFilesAreRead(t *testing.T) {
	var files []string
	for i := range 4 {
		files = append(files, entryLine(Stdout, "F", fmt.Sprint("a", i))+entryLine(Stderr, "F", fmt.Sprint("b", i)))
	}
	path := writeFiles(t, t.TempDir(), files, func(i int) bool { return i < 2 })
	for _, name := range []string{".20260701-120000.gz.tmp", ".20260701-130000.tmp", ".1", ".20260799-120000", ".2026071-120000"} {
		require.NoError(t, os.WriteFile(path+name, []byte(entryLine(Stdout, "F", "not of this log")), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), "10.log.20260701-120000"), []byte("x"), 0o600))
	text, result, err := read(t, Request{Path: path})
	require.NoError(t, err)
	require.Equal(t, "a0\nb0\na1\nb1\na2\nb2\na3\nb3\n", text)
	require.Equal(t, Result{Lines: 8, Bytes: 24}, result)

	five := int64(5)
	text, _, err = read(t, Request{Path: path, Options: Options{Tail: &five}})
	require.NoError(t, err)
	require.Equal(t, "b1\na2\nb2\na3\nb3\n", text)

	// Between a rename and the reopening there is no log file.
	require.NoError(t, os.Remove(path))
	text, _, err = read(t, Request{Path: path, Options: Options{Tail: &five}})
	require.NoError(t, err)
	require.Equal(t, "b0\na1\nb1\na2\nb2\n", text)
}

func TestReadWhatIsThereTwice(t *testing.T) {
	path := writeFiles(t, t.TempDir(), []string{entryLine(Stdout, "F", "old"), entryLine(Stdout, "F", "new")}, func(int) bool { return true })
	require.NoError(t, os.WriteFile(path+".20260701-120000", []byte(entryLine(Stdout, "F", "old")), 0o600))
	text, _, err := read(t, Request{Path: path})
	require.NoError(t, err)
	require.Equal(t, "old\nnew\n", text, "a compression that was interrupted at its end")
}

func TestReadSkipsFilesThatAreTooOld(t *testing.T) {
	path := writeFiles(t, t.TempDir(), []string{"no gzip at all", entryLine(Stdout, "F", "new")}, func(int) bool { return false })
	require.NoError(t, os.Rename(path+".20260701-120000", path+".20260701-120000.gz"))
	require.NoError(t, os.Chtimes(path+".20260701-120000.gz", noon(), noon().Add(-time.Second)))
	text, _, err := read(t, Request{Path: path, Options: Options{Since: noon()}})
	require.NoError(t, err, "it is not even opened")
	require.Equal(t, "new\n", text)
}

func TestReadGoesOnAfterADamagedFile(t *testing.T) {
	long := strings.Repeat(entryLine(Stdout, "F", "0123456789"), 10_000)
	path := writeFiles(t, t.TempDir(), []string{entryLine(Stdout, "F", "a"), long, entryLine(Stdout, "F", "c")}, func(i int) bool { return i == 1 })
	raw, err := os.ReadFile(path + ".20260701-120001.gz")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".20260701-120001.gz", raw[:len(raw)/2], 0o600))
	text, _, err := read(t, Request{Path: path})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, "0.log.20260701-120001.gz")
	require.True(t, strings.HasPrefix(text, "a\n0123456789\n") && strings.HasSuffix(text, "c\n"))
	one := int64(2)
	_, _, err = read(t, Request{Path: path, Options: Options{Tail: &one}})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestReadNoLog(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "0.log"), filepath.Join(dir, "no", "0.log")} {
		_, _, err := read(t, Request{Path: path})
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, _, err = read(t, Request{Path: path, Options: Options{Follow: true}})
		require.ErrorIs(t, err, fs.ErrNotExist, "and nobody will write one")
	}
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for _, path := range []string{dir, fifo} {
		_, _, err := read(t, Request{Path: path})
		require.ErrorContains(t, err, "is not a regular file")
	}
	minus := int64(-1)
	for field, req := range map[string]Request{
		"Path": {}, "Poll": {Path: "x", Poll: -1}, "tailLines": {Path: "x", Options: Options{Tail: &minus}},
	} {
		_, _, err := read(t, req)
		require.ErrorContains(t, err, field)
	}
}

// The streams do not mix within a line, and a time is put before it once.
func TestReadJoinsPieces(t *testing.T) {
	text := entryLine(Stdout, "P", "a") + entryLine(Stderr, "P", "x") + entryLine(Stdout, "P", "b") + entryLine(Stderr, "F", "y") + entryLine(Stdout, "F", "c") +
		entryLine(Stdout, "P", "no end")
	path := writeFiles(t, t.TempDir(), []string{text + "\n" + "nonsense\n"}, nil)
	got, result, err := read(t, Request{Path: path, Options: Options{Timestamps: true}})
	require.NoError(t, err)
	const at = "2026-07-01T12:00:00.000000001Z "
	require.Equal(t, at+"xy\n"+at+"abc\n"+at+"no end", got)
	require.EqualValues(t, 1, result.Malformed, "an empty line is not worth mentioning")
}

// Memory is bounded for all lines: an entry of 8 MiB, a line of 8 MiB in pieces, 8 MiB of invalid
// data.
func TestReadBoundsMemory(t *testing.T) {
	const size = 8 << 20
	piece := strings.Repeat("x", 16<<10)
	for name, text := range map[string]string{
		"one entry":       entryLine(Stdout, "F", strings.Repeat("x", size)) + entryLine(Stdout, "F", "end"),
		"one open entry":  strings.TrimSuffix(entryLine(Stdout, "F", strings.Repeat("x", size)), "\n"),
		"one line":        strings.Repeat(entryLine(Stdout, "P", piece), size/len(piece)) + entryLine(Stdout, "F", "") + entryLine(Stdout, "F", "end"),
		"nonsense":        strings.Repeat("x", size) + "\n" + entryLine(Stdout, "F", "end"),
		"nonsense, ended": strings.Repeat("y", size),
	} {
		path := writeFiles(t, t.TempDir(), []string{text}, nil)
		var n counter
		req := Request{Path: path, Stdout: &n, Options: Options{Timestamps: true}}
		var result Result
		used := allocated(func() {
			var err error
			result, err = Read(t.Context(), req)
			require.NoError(t, err)
		})
		require.Less(t, used, int64(3<<20), name)
		if strings.Contains(name, "one") {
			require.GreaterOrEqual(t, int64(n), int64(size), name)
			require.Less(t, int64(n), int64(size)+100, "%s: one time for each line", name)
		} else {
			require.EqualValues(t, 1, result.Malformed, name)
		}
		one := int64(1)
		req.Tail = &one
		used = allocated(func() {
			_, err := Read(t.Context(), req)
			require.NoError(t, err)
		})
		require.Less(t, used, int64(3<<20), name)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// allocated is how many bytes f allocates in all.
func allocated(f func()) int64 {
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	f()
	goruntime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// echo is a client whose reading makes the log grow.
type echo struct {
	t    *testing.T
	file *os.File
	n    int
}

func (w *echo) Write(p []byte) (int, error) {
	w.n += len(p)
	if w.n < 10<<20 {
		_, err := w.file.WriteString(strings.Repeat(entryLine(Stdout, "F", "more"), 1000))
		require.NoError(w.t, err)
	}
	return len(p), nil
}

func TestReadEndsWhereTheLogEndedAtFirst(t *testing.T) {
	path := writeFiles(t, t.TempDir(), []string{strings.Repeat(entryLine(Stdout, "F", "text"), 10_000)}, nil)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	result, err := Read(t.Context(), Request{Path: path, Stdout: &echo{t: t, file: f}})
	require.NoError(t, err)
	require.EqualValues(t, 10_000, result.Lines)
}

type brokenPipe struct{ after int }

func (w *brokenPipe) Write(p []byte) (int, error) {
	if w.after--; w.after < 0 {
		return 0, syscall.EPIPE
	}
	return len(p), nil
}

func TestReadEndsWithItsWriterAndItsContext(t *testing.T) {
	path := writeFiles(t, t.TempDir(), []string{strings.Repeat(entryLine(Stdout, "F", "text"), 50_000)}, nil)
	_, err := Read(t.Context(), Request{Path: path, Stdout: &brokenPipe{after: 2}})
	require.ErrorIs(t, err, syscall.EPIPE)
	why := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	_, err = Read(ctx, Request{Path: path, Stdout: io.Discard})
	require.ErrorIs(t, err, why)
}
