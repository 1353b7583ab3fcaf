// SPDX-License-Identifier: Apache-2.0

package kernelfile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/kernelfile"
)

func TestAppend(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int{0, 1, kernelfile.Size - 1, kernelfile.Size, 3*kernelfile.Size + 1, 1 << 20} {
		path, text := filepath.Join(dir, "file"), bytes.Repeat([]byte("x"), size)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		got, err := kernelfile.Append([]byte("before "), path)
		require.NoError(t, err)
		require.Equal(t, "before "+string(text), string(got))
		var buffer [kernelfile.Size]byte
		got, err = kernelfile.Append(buffer[:0], path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(text, got))
	}
}

func TestAppendFails(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	require.NoError(t, os.WriteFile(large, make([]byte, 1<<20+1), 0o600))
	for _, path := range []string{large, dir, filepath.Join(dir, "missing")} {
		got, err := kernelfile.Append([]byte("kept"), path)
		require.ErrorContains(t, err, path)
		require.Equal(t, "kept", string(got))
	}
	_, err := kernelfile.Append(nil, large)
	require.ErrorIs(t, err, kernelfile.ErrTooLarge)
	_, err = kernelfile.Append(nil, filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestValue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	_, ok := kernelfile.Value(path)
	require.False(t, ok)
	for text, want := range map[string]uint64{"7\n": 7, "18446744073709551615\n": 1<<64 - 1, "max\n": 0, "1 2\n": 0, "11111111111111111111111111111111111\n": 0} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		n, ok := kernelfile.Value(path)
		require.True(t, ok, text)
		require.Equal(t, want, n, text)
	}
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, ok = kernelfile.Value(path)
	require.False(t, ok, "empty")
}

func TestWords(t *testing.T) {
	var got [][]string
	for line, rest := kernelfile.Line([]byte("eth0:\t1  2\n\n last ")); ; line, rest = kernelfile.Line(rest) {
		words := []string{}
		for word, more := kernelfile.Word(line); len(word) > 0; word, more = kernelfile.Word(more) {
			words = append(words, string(word))
		}
		got = append(got, words)
		if len(rest) == 0 {
			break
		}
	}
	require.Equal(t, [][]string{{"eth0:", "1", "2"}, {}, {"last"}}, got)
	for text, want := range map[string]uint64{"": 0, "\n": 0, "7\n": 7, "18446744073709551615": 1<<64 - 1, "18446744073709551616": 0, "-1": 0, "max": 0} {
		require.Equal(t, want, kernelfile.Number([]byte(text)), text)
	}
}

// BenchmarkAppend reads a file of the kernel. The reference is os.ReadFile.
func BenchmarkAppend(b *testing.B) {
	for _, path := range []string{"/proc/self/net/dev", "/sys/fs/cgroup/memory/memory.stat", "/sys/fs/cgroup/pids/pids.current", "/sys/fs/cgroup/cpu.stat"} {
		if _, err := os.ReadFile(path); err != nil {
			continue // of the other version of cgroups
		}
		b.Run("append"+path, func(b *testing.B) {
			b.ReportAllocs()
			var buffer [kernelfile.Size]byte
			for b.Loop() {
				if _, err := kernelfile.Append(buffer[:0], path); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("reference"+path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := os.ReadFile(path); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
