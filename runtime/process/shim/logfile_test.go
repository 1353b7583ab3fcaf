// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime/logs"
)

// badDisk is a real one until something breaks it.
type badDisk struct {
	realDisk
	ops    int
	breaks func(op int, name string) error
	space  *int64 // bytes that a file may have; nil: any number
}

// bounded is a file on a disk that fills up.
type bounded struct {
	*os.File
	disk *badDisk
}

func (b bounded) Write(p []byte) (int, error) {
	info, err := b.Stat()
	if err != nil || b.disk.space == nil || info.Size()+int64(len(p)) <= *b.disk.space {
		return b.File.Write(p)
	}
	n, err := b.File.Write(p[:max(0, *b.disk.space-info.Size())])
	return n, errors.Join(err, syscall.ENOSPC)
}

func (d *badDisk) next(name string) error {
	d.ops++
	if d.breaks == nil {
		return nil
	}
	return d.breaks(d.ops, name)
}

func (d *badDisk) open(path string) (io.WriteCloser, fs.FileInfo, error) {
	if err := d.next("open"); err != nil {
		return nil, nil, err
	}
	f, info, err := d.realDisk.open(path)
	if err != nil {
		return nil, nil, err
	}
	return bounded{f.(*os.File), d}, info, nil
}

func (d *badDisk) names(dir, prefix string) ([]string, error) {
	if err := d.next("names"); err != nil {
		return nil, err
	}
	return d.realDisk.names(dir, prefix)
}

func (d *badDisk) rename(from, to string) error {
	if err := d.next("rename"); err != nil {
		return err
	}
	return d.realDisk.rename(from, to)
}

func (d *badDisk) putBack(from, to string) error {
	if err := d.next("putBack"); err != nil {
		return err
	}
	return d.realDisk.putBack(from, to)
}

func (d *badDisk) remove(path string) error {
	if err := d.next("remove"); err != nil {
		return err
	}
	return d.realDisk.remove(path)
}

// bench is a log file and a counter that is logged.
type bench struct {
	*testing.T
	*logFile
	disk  *badDisk
	notes bytes.Buffer
	n     int // the next number
	gaps  bool
}

func newBench(t *testing.T, maxSize int64, maxFiles int) *bench {
	b := &bench{T: t, disk: &badDisk{}}
	b.logFile = &logFile{
		path: filepath.Join(t.TempDir(), "c", "0.log"), maxSize: maxSize, maxFiles: maxFiles,
		disk: b.disk, notes: &b.notes,
	}
	require.NoError(t, b.open())
	t.Cleanup(func() { _ = b.file.Close() })
	return b
}

// count logs the next numbers, some entries at a time.
func (b *bench) count(numbers int) {
	rng := rand.New(rand.NewPCG(uint64(b.n), 7))
	for end := b.n + numbers; b.n < end; {
		var text []byte
		for range min(1+rng.IntN(9), end-b.n) {
			text = append(text, fmt.Sprintf("2026-07-01T12:00:00Z stdout F %d\n", b.n)...)
			b.n++
		}
		_, _ = b.Write(text)
	}
}

// read returns the numbers that are logged, and checks that they ascend, without
// gaps unless there may be some.
func (b *bench) read() []int {
	b.Helper()
	var out bytes.Buffer
	result, err := logs.Read(b.Context(), logs.Request{Path: b.path, Stdout: &out})
	require.NoError(b, err)
	require.Zero(b, result.Malformed)
	var list []int
	for s := range strings.Lines(out.String()) {
		n, err := strconv.Atoi(strings.TrimSuffix(s, "\n"))
		require.NoError(b, err)
		if len(list) > 0 {
			last := list[len(list)-1]
			require.True(b, n == last+1 || n > last && b.gaps, "%d after %d", n, last)
		}
		list = append(list, n)
	}
	require.NotEmpty(b, list)
	return list
}

// files returns the sizes of the log's files.
func (b *bench) files() (sizes []int64) {
	b.Helper()
	entries, err := os.ReadDir(filepath.Dir(b.path))
	require.NoError(b, err)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(b, err)
		sizes = append(sizes, info.Size())
	}
	return sizes
}

func (b *bench) last() int { list := b.read(); return list[len(list)-1] }

func TestALogIsRotatedAtLines(t *testing.T) {
	b := newBench(t, 1000, 4)
	b.count(300)
	sizes := b.files()
	assert.Len(t, sizes, 4)
	for _, size := range sizes[1:] {
		assert.LessOrEqual(t, size, int64(1000))
		assert.Greater(t, size, int64(960), "there was no room for one more")
	}
	assert.LessOrEqual(t, sizes[0], int64(1000))
	list := b.read()
	assert.Equal(t, 299, list[len(list)-1])
	assert.GreaterOrEqual(t, len(list), 3000/35)
	assert.Empty(t, b.notes.String())
}

func TestALineThatIsTooLongHasAFileOfItsOwn(t *testing.T) {
	b := newBench(t, 10, 3)
	b.count(20)
	assert.Len(t, b.files(), 3)
	assert.Equal(t, []int{17, 18, 19}, b.read())
}

func TestWithoutALimitNothingIsRotated(t *testing.T) {
	for _, limit := range []int64{0, -1} {
		b := newBench(t, limit, 2)
		b.count(1000)
		assert.Len(t, b.files(), 1)
		assert.Equal(t, 1000, len(b.read()))
	}
}

// TestAShimKilledAtAnyStepOfARotation: each operation in turn is the last one.
// What is there can be read, and another shim goes on with it.
func TestAShimKilledAtAnyStepOfARotation(t *testing.T) {
	for op := 1; op <= 24; op++ {
		b := newBench(t, 200, 3)
		b.disk.ops = 0
		b.disk.breaks = func(n int, _ string) error {
			if n == op {
				panic("killed")
			}
			return nil
		}
		done := 0
		func() {
			defer func() { require.Equal(t, "killed", recover()) }()
			for {
				b.count(1)
				done = b.n
			}
		}()
		assert.Equal(t, done-1, b.last(), "every line that was written, op %d", op)
		assert.LessOrEqual(t, len(b.files()), 3)

		next := &bench{T: t, disk: &badDisk{}, n: done}
		next.logFile = &logFile{path: b.path, maxSize: 200, maxFiles: 3, disk: next.disk, notes: &next.notes}
		require.NoError(t, next.open())
		next.count(5)
		assert.Equal(t, done+4, next.last())
		next.count(40)
		assert.Equal(t, done+44, next.last())
		assert.Len(t, next.files(), 3)
		require.NoError(t, next.file.Close())
	}
}

// TestARotationThatFailsAtAnyStep: nothing is lost but what was to be removed,
// and when the disk is well again the log is as small as ever.
func TestARotationThatFailsAtAnyStep(t *testing.T) {
	for from := 1; from <= 10; from++ {
		for _, times := range []int{1, 2, 1000} {
			for _, only := range []string{"", "open", "names", "rename", "remove", "putBack open"} {
				synctest.Test(t, func(t *testing.T) { failingRotation(t, from, times, only) })
			}
		}
	}
}

func failingRotation(t *testing.T, from, times int, only string) {
	b := newBench(t, 200, 3)
	b.disk.ops = 0
	failed := 0
	b.disk.breaks = func(n int, name string) error {
		if n < from || failed >= times || only != "" && !strings.Contains(only, name) {
			return nil
		}
		failed++
		// An older file that cannot be removed saves no newer one.
		b.gaps = b.gaps || name == "remove"
		return errors.New("disk trouble")
	}
	for range 10 {
		b.count(9)
		require.Equal(t, b.n-1, b.last(), "%s fails from %d", only, from)
		time.Sleep(retryAfter / 2)
	}
	if only == "open" {
		assert.FileExists(t, b.path, "its name was put back")
	}
	if only != "" && only != "remove" {
		assert.LessOrEqual(t, failed, 2*6, "twice a second, for five seconds")
	}
	assert.Equal(t, min(failed, 1), strings.Count(b.notes.String(), "\n"), "one note: %q", b.notes.String())
	b.disk.breaks = nil
	time.Sleep(retryAfter)
	b.count(40)
	require.Equal(t, b.n-1, b.last())
	sizes := b.files()
	assert.Len(t, sizes, 3)
	for _, size := range sizes {
		assert.LessOrEqual(t, size, int64(200))
	}
}

func TestALogThatSomebodyElseRenames(t *testing.T) {
	b := newBench(t, -1, 5)
	b.count(10)
	require.NoError(t, os.Rename(b.path, b.path+".20260701-120000"))
	b.count(10)
	require.NoError(t, os.Rename(b.path, b.path+".20260701-120001"))
	require.NoError(t, os.WriteFile(b.path, nil, 0o600))
	b.count(10)
	assert.Len(t, b.files(), 3)
	assert.Len(t, b.read(), 30)
	require.NoError(t, os.RemoveAll(filepath.Dir(b.path)))
	b.count(10)
	assert.Len(t, b.read(), 10)

	require.NoError(t, os.Rename(b.path, b.path+".20260701-120002"))
	require.NoError(t, syscall.Mkfifo(b.path, 0o600))
	b.count(10)
	require.NoError(t, os.Remove(b.path))
	assert.Len(t, b.read(), 20, "a fifo does not take the place of the log")
}

func TestATornEntryIsClosedWhenThereIsSpaceAgain(t *testing.T) {
	b := newBench(t, -1, 2)
	b.disk.space = new(int64(4))
	_, err := b.Write([]byte("first\n"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	_, err = b.Write([]byte("lost\n"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	b.disk.space = nil
	for _, line := range []string{"third\n", "fourth\n"} {
		_, err := b.Write([]byte(line))
		require.NoError(t, err)
	}
	raw, err := os.ReadFile(b.path)
	require.NoError(t, err)
	assert.Equal(t, "firs\nthird\nfourth\n", string(raw))
	assert.Equal(t, 1, strings.Count(b.notes.String(), "\n"))
}

// TestRotationOnAFullDisk: a file takes fewer bytes than a log may have, so that
// lines are torn, with and without rotations between. When there is space again,
// nothing more is lost.
func TestRotationOnAFullDisk(t *testing.T) {
	for _, space := range []int64{0, 20, 100, 130} {
		b := newBench(t, 150, 3)
		b.disk.space = &space
		b.count(100)
		names, err := filepath.Glob(b.path + "*")
		require.NoError(t, err)
		for _, name := range names {
			raw, err := os.ReadFile(name)
			require.NoError(t, err)
			assert.False(t, bytes.HasPrefix(raw, []byte{'\n'}), "a line torn in one file is not closed in the next")
		}
		b.disk.space = nil
		lost := b.n
		b.count(100)
		list := b.read()
		assert.Equal(t, 199, list[len(list)-1])
		assert.GreaterOrEqual(t, list[0], lost)
		assert.Len(t, b.files(), 3)
		assert.Contains(t, b.notes.String(), "no space left")
	}
}

func BenchmarkLogFile(b *testing.B) {
	l := &logFile{path: filepath.Join(b.TempDir(), "0.log"), maxSize: 10 << 20, maxFiles: 3, disk: realDisk{}, notes: io.Discard}
	require.NoError(b, l.open())
	defer l.file.Close()
	lines := []byte(strings.Repeat("2026-07-01T12:00:00.123456789Z stdout F a line of some length\n", 250))
	b.ReportAllocs()
	b.SetBytes(int64(len(lines)))
	for b.Loop() {
		if _, err := l.Write(lines); err != nil {
			b.Fatal(err)
		}
	}
}
