// SPDX-License-Identifier: Apache-2.0

package wired_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestPodsAreSpread: on ext4, pods are spread over groups of inodes. Otherwise a burst takes
// fifteen times as long after many files were deleted.
func TestPodsAreSpread(t *testing.T) {
	root := t.TempDir()
	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(root, &st))
	if st.Type != unix.EXT4_SUPER_MAGIC {
		t.Skip("this is no ext4")
	}
	flags := func(name string) uint32 {
		dir, err := os.Open(name)
		require.NoError(t, err)
		defer dir.Close()
		got, err := unix.IoctlGetUint32(int(dir.Fd()), unix.FS_IOC_GETFLAGS)
		require.NoError(t, err)
		return got
	}
	pods := filepath.Join(root, "pods")
	require.NoError(t, os.Mkdir(pods, 0o750), "also if somebody else made it")
	n := newNode(t, root)
	n.up(t, pod("uid", emptyDirs...))
	const topdir = 0x20000
	assert.NotZero(t, flags(pods)&topdir)
	assert.Zero(t, flags(filepath.Join(pods, "uid"))&topdir)
	n.down(t, "uid")
}
