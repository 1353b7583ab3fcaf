// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"os"
	goruntime "runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The kubelet takes a folder that cannot be read for an empty one, and removes every pod.
func TestUpstreamUnreadableFolderReadsAsEmpty(t *testing.T) {
	bubble(t, func(t *testing.T) {
		asOrdinaryUser(t)
		f := newFixture(t)
		require.NoError(t, os.Chmod(f.dir, 0))
		r := f.scan()
		assert.False(t, r.Ready, "the source is not seen while nobody knows")
		assert.False(t, r.Changed)
		assert.Equal(t, []string{".: permission denied"}, f.told())

		require.NoError(t, os.Chmod(f.dir, 0o755))
		f.write("a.yaml", pod("a", "i"))
		assert.True(t, f.scan().Ready)
		assert.Equal(t, []string{". ok"}, f.told())

		require.NoError(t, os.Chmod(f.dir, 0))
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"a=i"}, f.settle())
		assert.False(t, f.scan().Changed)
		assert.Equal(t, []string{".: permission denied"}, f.told())
		require.NoError(t, os.Chmod(f.dir, 0o755))
		assert.Equal(t, []string{"a=i"}, f.settle())
		assert.Equal(t, []string{". ok"}, f.told())

		require.NoError(t, os.Chmod(f.path("a.yaml"), 0))
		assert.Equal(t, []string{"a=i"}, f.settle())
		assert.Equal(t, []string{"a.yaml: permission denied"}, f.told())
		require.NoError(t, os.Chmod(f.path("a.yaml"), 0o644))
		assert.Equal(t, []string{"a=i"}, f.settle())
		assert.Equal(t, []string{"a.yaml ok"}, f.told())
	})
}

// asOrdinaryUser makes file accesses of this goroutine those of nobody for the rest of the test, if the tests run as
// root, whom no permission stops.
func asOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return
	}
	base, err := os.MkdirTemp("", "file-test-*")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(base, 0o777))
	t.Setenv("TMPDIR", base)
	goruntime.LockOSThread()
	const nobody = 65534
	_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0)
	t.Cleanup(func() {
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, 0, 0, 0)
		goruntime.UnlockOSThread()
		_ = os.RemoveAll(base)
	})
}
