// SPDX-License-Identifier: Apache-2.0

package imagestore

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUserOf(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "etc"), 0o700))
	passwd := "root:x:0:0:root:/root:/bin/sh\nweb:x:33:44::/srv/web:/bin/sh\n100:x:7:7::/:/bin/sh\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etc/passwd"), []byte(passwd), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etc/group"), []byte("root:x:0:\nstaff:x:50:web\n"), 0o600))
	type want struct {
		uid, gid int
		home     string
	}
	for spec, w := range map[string]want{
		"": {0, 0, "/root"}, "root": {0, 0, "/root"}, "web": {33, 44, "/srv/web"}, "33": {33, 44, "/srv/web"},
		"web:staff": {33, 50, "/srv/web"}, "web:9": {33, 9, "/srv/web"}, "1000": {1000, 0, "/"}, "1000:1001": {1000, 1001, "/"},
	} {
		got, err := userOf(openRoot(t, dir), spec)
		require.NoError(t, err, spec)
		assert.Equal(t, w, want{got.Uid, got.Gid, got.Home}, spec)
	}
	for _, spec := range []string{"nobody", "web:nobody", "-1", "99999999999"} {
		_, err := userOf(openRoot(t, dir), spec)
		assert.ErrorContains(t, err, spec, spec)
	}
	got, err := userOf(openRoot(t, t.TempDir()), "5")
	require.NoError(t, err, "an image without lists")
	assert.Equal(t, 5, got.Uid)
}

// The list of users of an image may be a link to a file of the host, or a fifo.
func TestUserOfHostileImage(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "etc"), 0o700))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "etc/passwd")))
	_, err := userOf(openRoot(t, dir), "root")
	require.ErrorContains(t, err, "escapes")
	require.NoError(t, os.Remove(filepath.Join(dir, "etc/passwd")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "etc/passwd"), 0o700))
	_, err = userOf(openRoot(t, dir), "root")
	require.ErrorContains(t, err, "not a regular file")
}
