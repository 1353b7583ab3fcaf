// SPDX-License-Identifier: Apache-2.0

package mount_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

func TestNoneRefusesAndReads(t *testing.T) {
	var m mount.Mounter = mount.None{}
	dir := t.TempDir()
	err := m.Mount(t.Context(), mount.Request{Source: "/a", Target: dir, Options: []string{"bind"}})
	require.ErrorIs(t, err, mount.ErrUnsupported)
	require.NoError(t, m.Unmount(t.Context(), dir), "nothing is mounted there")
	require.NoError(t, m.Unmount(t.Context(), filepath.Join(dir, "none")))
	_, mounted, err := m.At(dir)
	require.NoError(t, err)
	assert.False(t, mounted)
}

func TestTmpfs(t *testing.T) {
	m := mounttest.Need(t)
	dir := mounttest.Dir(t)
	target := filepath.Join(dir, "a b\tc") // the table escapes blanks
	require.NoError(t, os.Mkdir(target, 0o755))
	for range 2 {
		require.NoError(t, m.Mount(t.Context(), mount.Request{
			Source: "tmpfs", Target: target, Type: "tmpfs", Options: []string{"size=65536", "nosuid", "nodev", "mode=0711", "defaults"},
		}))
	}
	info, mounted, err := m.At(target)
	require.NoError(t, err)
	require.True(t, mounted)
	assert.Equal(t, "tmpfs", info.Type)
	assert.Contains(t, info.Options, "nosuid")
	assert.Contains(t, info.FSOptions, "size=64k")
	stat, err := os.Stat(target)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o711), stat.Mode().Perm())
	err = os.WriteFile(filepath.Join(target, "big"), make([]byte, 1<<20), 0o600)
	require.Error(t, err, "the size holds")

	require.ErrorIs(t, mount.None{}.Unmount(t.Context(), target), mount.ErrUnsupported, "None sees that something is mounted")
	require.NoError(t, m.Unmount(t.Context(), target), "both")
	_, mounted, err = m.At(target)
	require.NoError(t, err)
	assert.False(t, mounted)
	require.NoError(t, m.Unmount(t.Context(), target), "again")
}

func TestBind(t *testing.T) {
	m := mounttest.Need(t)
	dir := mounttest.Dir(t)
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "target")
	for _, d := range []string{source, target} {
		require.NoError(t, os.Mkdir(d, 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(source, "data"), []byte("data"), 0o600))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: source, Target: target, Options: []string{"bind", "ro", "noexec"}}))
	data, err := os.ReadFile(filepath.Join(target, "data"))
	require.NoError(t, err)
	assert.Equal(t, "data", string(data))
	require.Error(t, os.WriteFile(filepath.Join(target, "x"), nil, 0o600), "read-only")
	require.NoError(t, os.WriteFile(filepath.Join(source, "x"), nil, 0o600), "the source is not")
	info, mounted, err := m.At(target)
	require.NoError(t, err)
	require.True(t, mounted)
	assert.Contains(t, info.Options, "noexec")
	assert.True(t, strings.HasSuffix(info.Root, "/source"), info.Root)
	require.NoError(t, m.Mount(t.Context(), mount.Request{Target: target, Options: []string{"remount", "bind", "nosuid"}}))
	info, _, err = m.At(target)
	require.NoError(t, err)
	assert.Contains(t, info.Options, "ro,nosuid,noexec", "what restricts it stays")
	require.Error(t, m.Mount(t.Context(), mount.Request{Target: source, Options: []string{"remount", "bind", "nosuid"}}), "not mounted")
	require.NoError(t, m.Unmount(t.Context(), target))
	assert.Empty(t, mounttest.Below(t, dir), "a remount is no further mount")
	require.FileExists(t, filepath.Join(source, "data"))
}

func TestUnmountFollowsNoLink(t *testing.T) {
	m := mounttest.Need(t)
	mounted := mounttest.Tmpfs(t, "64k")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(mounted, link))
	require.NoError(t, m.Unmount(t.Context(), link))
	_, still, err := m.At(mounted)
	require.NoError(t, err)
	assert.True(t, still)
	_, isMounted, err := m.At(link)
	require.NoError(t, err)
	assert.False(t, isMounted, "a link is no mount point")
}

func TestFailedMountLeavesNothing(t *testing.T) {
	m := mounttest.Need(t)
	dir := mounttest.Dir(t)
	for _, r := range []mount.Request{
		{Source: filepath.Join(dir, "none"), Target: dir, Options: []string{"bind"}},
		{Source: "tmpfs", Target: filepath.Join(dir, "none"), Type: "tmpfs"},
		{Source: "x", Target: dir, Type: "no-such-fs"},
		{Source: "tmpfs", Target: dir, Type: "tmpfs", Options: []string{"no-such-option"}},
	} {
		require.Error(t, m.Mount(t.Context(), r))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	require.ErrorIs(t, m.Mount(ctx, mount.Request{Source: "tmpfs", Target: dir, Type: "tmpfs"}), why)
	require.ErrorIs(t, m.Unmount(ctx, dir), why)
	assert.Empty(t, mounttest.Below(t, dir))
}

func TestBusyMountIsAnError(t *testing.T) {
	m := mounttest.Need(t)
	target := mounttest.Tmpfs(t, "64k")
	f, err := os.Create(filepath.Join(target, "open"))
	require.NoError(t, err)
	require.Error(t, m.Unmount(t.Context(), target), "it is not lazy")
	require.NoError(t, f.Close())
}
