// SPDX-License-Identifier: Apache-2.0

package recordfile_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/imagegc/recordfile"
)

var _ imagegc.Store = (*recordfile.File)(nil)

var day = time.Date(2026, 11, 21, 12, 0, 0, 123, time.UTC)

func records(n int) []imagegc.Record {
	out := []imagegc.Record{}
	for i := range n {
		out = append(out, imagegc.Record{
			ID: fmt.Sprint("sha256:", i), FirstDetected: day, LastUsed: day.Add(time.Duration(i) * time.Second),
		})
	}
	if n > 0 {
		out[0].Handler, out[0].LastUsed = "kata", time.Time{}
	}
	return out
}

func TestWhatIsSavedIsLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images.json")
	file := recordfile.New(path)
	got, err := file.Load(t.Context())
	require.NoError(t, err)
	require.Empty(t, got, "no file, no error")
	for _, n := range []int{3, 0, 1000} {
		require.NoError(t, file.Save(t.Context(), records(n)))
		got, err = recordfile.New(path).Load(t.Context())
		require.NoError(t, err)
		require.Equal(t, records(n), got)
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode())
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, left, 1)
}

func TestSaveTakesOverWhatAKilledOneLeft(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "images.json"), filepath.Join(dir, "victim")
	require.NoError(t, os.WriteFile(victim, []byte("mine"), 0o600))
	require.NoError(t, os.Symlink(victim, path+".tmp"))
	require.NoError(t, recordfile.New(path).Save(t.Context(), records(2)))
	text, err := os.ReadFile(victim)
	require.NoError(t, err)
	assert.Equal(t, "mine", string(text))
}

func TestFailedSaveKeepsTheOld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images.json")
	file := recordfile.New(path)
	require.NoError(t, file.Save(t.Context(), records(2)))
	require.NoError(t, os.MkdirAll(path+".tmp/in-the-way", 0o700))
	require.Error(t, file.Save(t.Context(), records(3)))
	got, err := file.Load(t.Context())
	require.NoError(t, err)
	assert.Equal(t, records(2), got)

	lost := recordfile.New(filepath.Join(t.TempDir(), "no", "folder"))
	require.ErrorIs(t, lost.Save(t.Context(), records(1)), fs.ErrNotExist)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, file.Save(ctx, records(1)), context.Canceled)
	_, err = file.Load(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestCorruptFileIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images.json")
	file := recordfile.New(path)
	require.NoError(t, file.Save(t.Context(), records(2)))
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	for name, text := range map[string][]byte{
		"empty":       {},
		"zeros":       make([]byte, len(good)),
		"cut":         good[:len(good)/2],
		"other":       []byte("[]"),
		"of tomorrow": bytes.Replace(good, []byte(`"version":1`), []byte(`"version":2`), 1),
		"no ID":       bytes.Replace(good, []byte("sha256:1"), nil, 1),
		"no time":     []byte(`{"version":1,"images":[{"id":"a"}]}`),
		"bad time":    []byte(`{"version":1,"images":[{"id":"a","firstDetected":"yesterday"}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, text, 0o600))
			got, err := file.Load(t.Context())
			require.ErrorIs(t, err, recordfile.ErrCorrupt)
			require.ErrorContains(t, err, path)
			require.Empty(t, got)
			require.NoError(t, file.Save(t.Context(), records(1)))
			_, err = file.Load(t.Context())
			require.NoError(t, err)
		})
	}
}

// FuzzLoad checks that accepted content equals the output of Save.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"version":1,"images":[{"id":"a","handler":"b","firstDetected":"2026-11-21T12:00:00Z","lastUsed":"2026-11-21T13:00:00+01:00"}]}`))
	f.Add([]byte(`{"version":1}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "images.json")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		file := recordfile.New(path)
		got, err := file.Load(t.Context())
		if err != nil {
			require.ErrorIs(t, err, recordfile.ErrCorrupt)
			return
		}
		if err := file.Save(t.Context(), got); err != nil {
			return // JSON has no text for the year
		}
		again, err := file.Load(t.Context())
		require.NoError(t, err)
		require.Equal(t, len(got), len(again))
		for i := range got {
			require.Equal(t, got[i].ID, again[i].ID)
			require.True(t, got[i].FirstDetected.Equal(again[i].FirstDetected))
			require.True(t, got[i].LastUsed.Equal(again[i].LastUsed))
		}
	})
}
