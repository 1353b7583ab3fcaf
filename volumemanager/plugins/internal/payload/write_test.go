// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWriteAndRewrite(t *testing.T) {
	v := newVolume(t)
	assert.True(t, v.write(of("a", "1", "d/e/f", "2", "d/g", "3"), Options{}))
	assert.Equal(t, map[string]string{"a": "1", "d/e/f": "2", "d/g": "3"}, v.seen())
	assert.Equal(t, []string{"..V", "..data", "a", "d"}, v.names())

	before, err := os.Stat(filepath.Join(v.dir, dataLink))
	require.NoError(t, err)
	assert.False(t, v.write(of("a", "1", "d/e/f", "2", "d/g", "3"), Options{}), "unchanged")
	after, err := os.Stat(filepath.Join(v.dir, dataLink))
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after), "no new version without a change")

	for _, p := range []Payload{
		of("a", "1", "d/e/f", "2", "d/g", "4"),        // changed content
		of("a", "1", "d/e/f", "2"),                    // a removed file
		of("a", "1", "d", "a file now"),               // a folder became a file
		of("a/b", "1", "d/x", "", "z", "more"),        // and back; an empty file
		of(),                                          // no files
		of("0", "again", ".h", "hidden", "x..", "yy"), // and again
	} {
		assert.True(t, v.write(p, Options{}))
		assert.Equal(t, texts(p), v.seen())
		assert.Len(t, v.names(), len(p.tops())+2)
	}
}

func TestEmptyPayloadHasDataLink(t *testing.T) {
	v := newVolume(t)
	assert.True(t, v.write(Payload{}, Options{}))
	assert.Equal(t, []string{"..V", "..data"}, v.names())
	assert.False(t, v.write(Payload{}, Options{}))
}

func TestModesIgnoreUmask(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	v := newVolume(t)
	p := Payload{"ro": {Mode: 0o444}, "d/x": {Mode: 0o755}, "secret": {Mode: 0o600}, "bits": {Mode: 0o666 | os.ModeSetuid}}
	v.write(p, Options{})
	for name, want := range map[string]os.FileMode{
		"ro": 0o444, "d/x": 0o755, "secret": 0o600, "bits": 0o666, "d": 0o755 | os.ModeDir, dataLink: 0o755 | os.ModeDir,
	} {
		info, err := os.Stat(filepath.Join(v.dir, name))
		require.NoError(t, err)
		assert.Equal(t, want, info.Mode(), name)
	}
}

func TestUserOwnsItsFile(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	v := newVolume(t)
	user := int64(12345)
	v.write(Payload{"hers": {Mode: 0o400, User: &user}, "ours": {Mode: 0o400}}, Options{})
	for name, want := range map[string]uint32{"hers": 12345, "ours": 0} {
		info, err := os.Stat(filepath.Join(v.dir, name))
		require.NoError(t, err)
		assert.Equal(t, want, info.Sys().(*syscall.Stat_t).Uid, name)
	}
}

// TestOwnersAreSetBeforeTheCommit: visible files have their owners from the first moment.
func TestOwnersAreSetBeforeTheCommit(t *testing.T) {
	v := newVolume(t)
	v.write(of("a", "old"), Options{})
	own := func(root *os.Root, version string) error {
		data, err := root.ReadFile(version + "/a")
		assert.NoError(t, err)
		assert.Equal(t, "new", string(data))
		assert.Equal(t, map[string]string{"a": "old"}, v.seen(), "not committed yet")
		return nil
	}
	v.write(of("a", "new"), Options{Own: own})
	assert.Equal(t, map[string]string{"a": "new"}, v.seen())
}

// TestUpstream113242FailedRefreshKeepsTheOldVersion also tests the [M] row about a volume that
// becomes an empty new inode.
func TestUpstream113242FailedRefreshKeepsTheOldVersion(t *testing.T) {
	v := newVolume(t)
	v.write(of("a", "old"), Options{})
	before, err := os.Stat(v.dir)
	require.NoError(t, err)
	_, err = Write(t.Context(), v.root, of("a", "new"), Options{Own: func(*os.Root, string) error { return errors.New("no") }})
	require.ErrorContains(t, err, "no")
	after, err := os.Stat(v.dir)
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after))
	assert.Equal(t, map[string]string{"a": "old"}, v.seen())
	assert.Equal(t, []string{"..V", "..data", "a"}, v.names(), "the failed version is gone")
}

func TestCancelledWriteChangesNothing(t *testing.T) {
	v := newVolume(t)
	v.write(of("a", "old"), Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	_, err := Write(ctx, v.root, of("a", "new"), Options{})
	require.ErrorIs(t, err, why)
	assert.Equal(t, map[string]string{"a": "old"}, v.seen())
}

// TestUpstream68211KeptVersionStays: a version used by a subPath mount is not removed before the
// mount is gone.
func TestUpstream68211KeptVersionStays(t *testing.T) {
	v := newVolume(t)
	v.write(of("a", "1"), Options{})
	first := (&writer{folder: disk{v.root}}).current()
	keep := func(name string) bool { return name == first }
	v.write(of("a", "2"), Options{Keep: keep})
	v.write(of("a", "3"), Options{Keep: keep})
	data, err := os.ReadFile(filepath.Join(v.dir, first, "a"))
	require.NoError(t, err)
	assert.Equal(t, "1", string(data))
	assert.Equal(t, []string{"..V", "..V", "..data", "a"}, v.names())
	v.write(of("a", "3"), Options{})
	assert.Equal(t, []string{"..V", "..data", "a"}, v.names(), "swept although nothing changed")
}

func TestTenThousandKeys(t *testing.T) {
	v := volumeAt(t, fastDir(t))
	p := Payload{}
	for i := range 10_000 {
		p[fmt.Sprintf("key-%05d", i)] = File{Data: fmt.Append(nil, i), Mode: 0o644}
	}
	assert.True(t, v.write(p, Options{}))
	assert.Len(t, v.names(), 10_002)
	assert.False(t, v.write(p, Options{}))
	assert.Equal(t, texts(p), v.seen())
}

// TestFreshThatIsNot: if the folder is not empty despite Fresh, Write leaves a complete current
// version and removes no version. The next Write repairs the rest.
func TestFreshThatIsNot(t *testing.T) {
	v := newVolume(t)
	v.write(payloads[0], Options{})
	_, err := Write(t.Context(), v.root, payloads[1], Options{Fresh: true})
	require.Error(t, err, "the links are there")
	assert.Equal(t, texts(payloads[1]), v.seen())
	v.write(payloads[1], Options{})
	assert.Equal(t, []string{"..V", "..data", "a", "b"}, v.names())
}
