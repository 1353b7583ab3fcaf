// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestWithoutOpenat2: on kernels without it, links and mounts are told in another way.
func TestWithoutOpenat2(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"sub", "bound"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	require.NoError(t, os.Symlink("sub", filepath.Join(dir, "link")))
	at, err := os.Open(dir)
	require.NoError(t, err)
	defer at.Close()
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	fd, err := openCompared(int(at.Fd()), "sub", flags)
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
	_, err = openCompared(int(at.Fd()), "link", flags)
	assert.Contains(t, []error{unix.ENOTDIR, unix.ELOOP}, err)

	if err := unix.Mount(dir, filepath.Join(dir, "bound"), "", unix.MS_BIND, ""); err != nil {
		t.Skipf("this process cannot mount: %v", err)
	}
	defer func() { require.NoError(t, unix.Unmount(filepath.Join(dir, "bound"), 0)) }()
	for name, open := range map[string]func(int, string, int) (int, error){"compared": openCompared, "openat2": openBeneath} {
		_, err = open(int(at.Fd()), "bound", flags)
		assert.Equal(t, unix.EXDEV, err, name)
	}
}
