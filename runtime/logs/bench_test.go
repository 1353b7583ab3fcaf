// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bufio"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkTail100Of100MiB reads the last 100 lines of a log of 100 MiB. The
// reference reads all of it and keeps the last 100 lines, without looking into
// them.
func BenchmarkTail100Of100MiB(b *testing.B) {
	path := bigLog(b, 100<<20)
	tail := int64(100)
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var n counter
			result, err := Read(b.Context(), Request{Path: path, Stdout: &n, Stderr: &n, Options: Options{Tail: &tail}})
			if err != nil || result.Lines != tail {
				b.Fatal(result, err)
			}
		}
	})
	b.Run("reference=all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if n := naiveFileTail(b, path, int(tail)); n != int(tail) {
				b.Fatal(n)
			}
		}
	})
}

// BenchmarkReadAll reads all of 100 MiB. The reference only splits it into lines.
func BenchmarkReadAll(b *testing.B) {
	const size = 100 << 20
	path := bigLog(b, size)
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(size)
		for b.Loop() {
			var n counter
			if _, err := Read(b.Context(), Request{Path: path, Stdout: &n, Stderr: &n}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("reference=lines", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(size)
		for b.Loop() {
			naiveFileTail(b, path, 1)
		}
	})
}

func bigLog(b *testing.B, size int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "0.log")
	f, err := os.Create(path)
	require.NoError(b, err)
	w := bufio.NewWriterSize(f, 1<<20)
	line := entryLine(Stdout, "F", "GET /index.html 200 from 10.88.0.17 in 12 ms, agent curl/8.1 and what else one writes")
	for n := 0; n < size; n += len(line) {
		_, err := w.WriteString(line)
		require.NoError(b, err)
	}
	require.NoError(b, w.Flush())
	require.NoError(b, f.Close())
	return path
}

func naiveFileTail(b *testing.B, path string, n int) int {
	b.Helper()
	f, err := os.Open(path)
	require.NoError(b, err)
	defer f.Close()
	last := make([]string, 0, n)
	at := 0
	for s := bufio.NewScanner(f); s.Scan(); at++ {
		if len(last) < n {
			last = append(last, s.Text())
		} else {
			last[at%n] = s.Text()
		}
	}
	return len(last)
}
