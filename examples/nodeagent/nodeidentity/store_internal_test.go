// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"bytes"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stored returns the certificate of a store as a reader of the folder finds it, after a restart.
func stored(t *testing.T, dir string) []byte {
	t.Helper()
	s, err := NewStore(dir, ClientPrefix)
	require.NoError(t, err)
	pair, err := s.Load()
	require.NoError(t, err)
	return pair.Certificate[0]
}

// TestStoreSurvivesACrashAfterEachStep ends Save after each of its steps. A reader of the link finds a
// complete pair at each moment, a restart finds the old or the new one, and the next Save works.
func TestStoreSurvivesACrashAfterEachStep(t *testing.T) {
	s := newSigner(t)
	old, next, third := s.issue(t, ClientTemplate("old")), s.issue(t, ClientTemplate("new")), s.issue(t, ClientTemplate("third"))
	der := func(i issue) []byte {
		block, _ := pem.Decode(i.chain)
		return block.Bytes
	}
	steps := len((&Store{}).saving(nil, nil, time.Now()))
	for done := range steps + 1 {
		dir := filepath.Join(t.TempDir(), "pki")
		store, err := NewStore(dir, ClientPrefix)
		require.NoError(t, err)
		began := time.Unix(1_000_000, 0)
		require.NoError(t, store.Save(old.chain, old.key, began))
		for _, do := range store.saving(next.chain, next.key, began.Add(time.Hour))[:done] {
			require.NoError(t, do())
			_, err := loadPair(store.CurrentPath())
			require.NoError(t, err, "a client that reads the link now")
		}
		got := stored(t, dir)
		assert.True(t, bytes.Equal(got, der(old)) && done < 3 || bytes.Equal(got, der(next)) && done >= 3, "after %d steps", done)
		store, err = NewStore(dir, ClientPrefix)
		require.NoError(t, err)
		require.NoError(t, store.Save(third.chain, third.key, began.Add(2*time.Hour)))
		assert.Equal(t, der(third), stored(t, dir))
		files, err := filepath.Glob(dir + "/*")
		require.NoError(t, err)
		assert.LessOrEqual(t, len(files), 3, "the link and two pairs: %v", files)
	}
}

// TestStoreWithHalfWrittenFiles: whatever a crash or a stranger leaves, New succeeds, and a pair that
// cannot be read is an error of Load.
func TestStoreWithHalfWrittenFiles(t *testing.T) {
	s := newSigner(t)
	good, next := s.issue(t, ClientTemplate("n")), s.issue(t, ClientTemplate("n"))
	for name, tc := range map[string]struct {
		damage func(t *testing.T, dir string)
		lost   bool
	}{
		"half of a temporary file": {damage: func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(dir+"/kubelet-client-1970-01-13-00-00-00.pem.tmp", next.chain[:50], 0o600))
		}},
		"a link to nothing": {damage: func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink("missing", dir+"/kubelet-client-updated.pem"))
		}},
		"a link to half a file": {damage: func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(dir+"/half.pem", next.chain, 0o600))
			require.NoError(t, os.Symlink("half.pem", dir+"/kubelet-client-updated.pem"))
		}},
		"a folder in the place of the link": {damage: func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(dir+"/kubelet-client-updated.pem", 0o700))
		}},
		"the current file is truncated": {lost: true, damage: func(t *testing.T, dir string) {
			require.NoError(t, os.Truncate(dir+"/kubelet-client-current.pem", 100))
		}},
		"the key belongs to another certificate": {lost: true, damage: func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(dir+"/kubelet-client-current.pem", append(bytes.Clone(good.chain), next.key...), 0o600))
		}},
		"the current file is gone": {lost: true, damage: func(t *testing.T, dir string) {
			file, err := os.Readlink(dir + "/kubelet-client-current.pem")
			require.NoError(t, err)
			require.NoError(t, os.Remove(filepath.Join(dir, file)))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store, err := NewStore(dir, ClientPrefix)
			require.NoError(t, err)
			require.NoError(t, store.Save(good.chain, good.key, time.Unix(1_000_000, 0)))
			tc.damage(t, dir)
			store, err = NewStore(dir, ClientPrefix)
			require.NoError(t, err)
			_, err = store.Load()
			assert.Equal(t, tc.lost, err != nil, "%v", err)
			require.NoError(t, store.Save(next.chain, next.key, time.Unix(1_000_001, 0)))
			_, err = store.Load()
			require.NoError(t, err)
		})
	}
}

func TestStoreLayout(t *testing.T) {
	s := newSigner(t)
	i := s.issue(t, ClientTemplate("n"))
	dir := filepath.Join(t.TempDir(), "pki")
	store, err := NewStore(dir, ClientPrefix)
	require.NoError(t, err)
	_, err = store.Load()
	require.ErrorIs(t, err, fs.ErrNotExist)

	require.NoError(t, os.WriteFile(dir+"/kubelet-client.crt", i.chain, 0o600))
	require.NoError(t, os.WriteFile(dir+"/kubelet-client.key", i.key, 0o600))
	_, err = store.Load()
	require.NoError(t, err, "the files of an old kubelet")

	require.NoError(t, store.Save(i.chain, i.key, time.Date(2026, 11, 23, 4, 5, 6, 0, time.UTC)))
	file, err := os.Readlink(dir + "/kubelet-client-current.pem")
	require.NoError(t, err)
	assert.Equal(t, "kubelet-client-2026-11-23-04-05-06.pem", file)
	info, err := os.Stat(dir + "/kubelet-client-current.pem")
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode(), "the file has the key")
	require.NoError(t, store.Save(i.chain, i.key, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)), "a clock that was set back")
	_, err = store.Load()
	require.NoError(t, err)
	require.NoError(t, store.Save(i.chain, i.key, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)), "twice in a second")
	_, err = store.Load()
	require.NoError(t, err)

	absolute, err := filepath.Abs(dir + "/kubelet-client-2020-01-01-00-00-00.pem")
	require.NoError(t, err)
	require.NoError(t, os.Remove(dir+"/kubelet-client-current.pem"))
	require.NoError(t, os.Symlink(absolute, dir+"/kubelet-client-current.pem"))
	_, err = store.Load()
	require.NoError(t, err, "the link of a kubelet is absolute")

	require.NoError(t, os.WriteFile(dir+"/kubelet-server-current.pem", nil, 0o600))
	_, err = NewStore(dir, ServingPrefix)
	require.ErrorContains(t, err, "remove it")
	_, err = NewStore("", ServingPrefix)
	require.ErrorContains(t, err, "required")
}

func TestRequestFile(t *testing.T) {
	want := ClientTemplate("n")
	store, err := NewStore(t.TempDir(), ClientPrefix)
	require.NoError(t, err)
	_, ok := store.loadRequest()
	assert.False(t, ok)
	r, err := newRequest(want)
	require.NoError(t, err)
	require.NoError(t, store.saveRequest(r))
	again, ok := store.loadRequest()
	require.True(t, ok)
	assert.Equal(t, r, again)
	assert.True(t, again.asksFor(want))
	assert.False(t, again.asksFor(ClientTemplate("m")))
	other, err := newRequest(want)
	require.NoError(t, err)
	assert.False(t, request{r.csr, other.key}.asksFor(want), "the key of another request")
	for end := range len(r.encode()) {
		if half, err := decodeRequest(r.encode()[:end]); err == nil {
			assert.True(t, half.asksFor(want), "%d bytes", end)
		}
	}
	require.NoError(t, store.dropRequest())
	require.NoError(t, store.dropRequest())
}
