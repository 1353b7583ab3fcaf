// SPDX-License-Identifier: Apache-2.0

package file

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

const anyPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: i}]}\n"

// The clock of a file system may stand still between two writes. An equal stamp proves nothing
// about a file read right after a write.
func TestEqualStampIsOnlyTrustedOnceTheFileIsOld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	require.NoError(t, os.WriteFile(path, []byte(anyPod), 0o644))
	s, err := New(Config{Path: path, Decoder: &manifest.Decoder{NodeName: "n"}})
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)

	e := &entry{stamp: stampOf(info)}
	s.files[path] = e
	refresh := func(now time.Time) {
		require.NoError(t, s.lookAt(t.Context(), []string{path}, func(path string, seen look) { s.refresh(path, e, seen, now) }))
	}
	refresh(info.ModTime().Add(time.Second))
	require.NotNil(t, e.pods, "read, as the stamp is not trusted")
	assert.False(t, e.trusted)
	refresh(info.ModTime().Add(time.Minute))
	assert.True(t, e.trusted)

	e.sum, e.pods = [32]byte{}, nil
	refresh(info.ModTime().Add(time.Minute))
	assert.Nil(t, e.pods, "not read again")
	require.NoError(t, os.Chmod(path, 0o600))
	refresh(info.ModTime().Add(time.Minute))
	assert.NotNil(t, e.pods, "any change of the stamp counts")
}

// An examined file may be a FIFO by the time it is opened.
func TestReadDoesNotBlockOnAFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(path, 0o644))
	done := make(chan error, 1)
	go func() {
		_, err := read(path, 100)
		done <- err
	}()
	select {
	case err := <-done:
		assert.EqualError(t, err, "not a regular file but a named pipe")
	case <-time.After(10 * time.Second):
		// End the hanging open call before the failure.
		w, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		defer w.Close()
		require.Fail(t, "blocked")
	}
}

func TestReadExaminesWhatItOpened(t *testing.T) {
	dir := t.TempDir()
	_, err := read(dir, 100)
	require.EqualError(t, err, "not a regular file but a directory")
	require.NoError(t, os.WriteFile(dir+"/a", make([]byte, 100), 0o644))
	_, err = read(dir+"/a", 100)
	require.ErrorIs(t, err, manifest.ErrTooLarge)
	_, err = read(dir+"/b", 100)
	require.ErrorIs(t, err, errVanished)
}
