// SPDX-License-Identifier: Apache-2.0

package diskuse_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/diskuse"
)

const block = 4096

func write(t *testing.T, size int, elements ...string) string {
	t.Helper()
	path := filepath.Join(elements...)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, make([]byte, size), 0o600))
	return path
}

func TestOf(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	empty, err := diskuse.Of(t.Context(), dir)
	require.NoError(t, err)
	assert.EqualValues(t, 1, empty.Inodes)

	first := write(t, 10*block, dir, "a", "b", "first")
	write(t, 1, dir, "second")
	write(t, 1000*block, outside, "large")
	require.NoError(t, os.Link(first, filepath.Join(dir, "again")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	sparse, err := os.Create(filepath.Join(dir, "sparse"))
	require.NoError(t, err)
	require.NoError(t, sparse.Truncate(1<<30))
	require.NoError(t, sparse.Close())

	got, err := diskuse.Of(t.Context(), dir)
	require.NoError(t, err)
	assert.EqualValues(t, 1+2+4, got.Inodes, "the folders, two files, a link and a sparse file")
	assert.GreaterOrEqual(t, got.Bytes, uint64(10*block+1))
	assert.Less(t, got.Bytes, uint64(20*block), "neither a second name, the target of a link, nor a hole counts")
	assert.WithinDuration(t, time.Now(), got.At, time.Minute)

	_, err = diskuse.Of(t.Context(), filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = diskuse.Of(ended, dir)
	require.ErrorIs(t, err, context.Canceled)
}

// A result is kept for a minute, also while the folder changes, and after the folder is gone.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		folder := filepath.Join(dir, "f")
		var m diskuse.Meter
		_, known := m.Usage(t.Context(), folder)
		require.False(t, known)
		write(t, block, folder, "one")
		_, known = m.Usage(t.Context(), folder)
		require.False(t, known, "a failure is repeated after a minute, too")
		time.Sleep(time.Minute)
		first, known := m.Usage(t.Context(), folder)
		require.True(t, known)
		require.EqualValues(t, 2, first.Inodes)

		write(t, block, folder, "two")
		time.Sleep(time.Minute - 1)
		again, _ := m.Usage(t.Context(), folder)
		require.Equal(t, first, again)
		time.Sleep(time.Nanosecond)
		second, _ := m.Usage(t.Context(), folder)
		require.EqualValues(t, 3, second.Inodes)

		require.NoError(t, os.RemoveAll(folder))
		time.Sleep(time.Hour)
		last, known := m.Usage(t.Context(), folder)
		require.True(t, known)
		require.Equal(t, second, last, "the age tells")

		m.Forget()
		m.Forget()
		_, known = m.Usage(t.Context(), folder)
		require.False(t, known)
	})
}

// A request that is given up does not prevent the next measurement for a minute.
func TestMeterAfterCancelledRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, block, dir, "one")
		var m diskuse.Meter
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, known := m.Usage(ended, dir)
		require.False(t, known)
		u, known := m.Usage(t.Context(), dir)
		require.True(t, known)
		require.EqualValues(t, 2, u.Inodes)
	})
}

func BenchmarkOf(b *testing.B) {
	for _, files := range []int{10, 1000} {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			dir := b.TempDir()
			for i := range files {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte("x"), 0o600); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := diskuse.Of(b.Context(), dir); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
