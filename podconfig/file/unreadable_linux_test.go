// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The kubelet treats an unreadable folder as empty, and removes every pod.
func TestUpstreamUnreadableFolderReadsAsEmpty(t *testing.T) {
	if asOrdinaryUser(t) {
		return
	}
	bubble(t, func(t *testing.T) {
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

// asOrdinaryUser runs the test in another process as user nobody if the tests run as root, because
// permissions do not apply to root. If it returns false, this process must run the test.
func asOrdinaryUser(t *testing.T) (played bool) {
	if os.Geteuid() != 0 {
		return false
	}
	base, err := os.MkdirTemp("", "file-test-*")
	require.NoError(t, err)
	defer os.RemoveAll(base)
	require.NoError(t, os.Chmod(base, 0o777))
	self, err := os.Executable()
	require.NoError(t, err)
	binary, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(base+"/test", binary, 0o755))
	const nobody = 65534
	child := exec.Command(base+"/test", "-test.run=^"+t.Name()+"$", "-test.v")
	child.Dir, child.Env = base, []string{"TMPDIR=" + base, "HOME=" + base}
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return true
}
