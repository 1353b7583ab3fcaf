// SPDX-License-Identifier: Apache-2.0

package topdir_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/topdir"
)

// The folder keeps its flags and gets the mark; its child folders do not inherit the mark.
func TestMark(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Open(dir)
	require.NoError(t, err)
	defer f.Close()
	flags := func(name string) uint32 {
		f, err := os.Open(name)
		require.NoError(t, err)
		defer f.Close()
		got, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
		require.NoError(t, err)
		return got
	}
	if err := topdir.Mark(f); errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) {
		t.Skipf("this file system has no such flag: %v", err)
	} else {
		require.NoError(t, err)
	}
	before := flags(dir)
	require.NoError(t, topdir.Mark(f), "once more")
	assert.Equal(t, before, flags(dir))
	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &st))
	if st.Type == unix.EXT4_SUPER_MAGIC {
		assert.NotZero(t, before&0x20000)
		sub := filepath.Join(dir, "pod")
		require.NoError(t, os.Mkdir(sub, 0o750))
		assert.Zero(t, flags(sub)&0x20000, "what is in a pod's folder belongs together")
	}
}

func TestMarkOfWhatIsClosed(t *testing.T) {
	f, err := os.Open(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Error(t, topdir.Mark(f))
}
