// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// flagImmutable is FS_IMMUTABLE_FL of linux/fs.h.
const flagImmutable = 0x10

// TestFileThatCannotBeChangedIsAnError: the kubelet logs the failure, and treats the volume as
// ready. Here all other files are changed, but not the root, so that the next Apply walks again.
func TestFileThatCannotBeChangedIsAnError(t *testing.T) {
	w := newWorld(t)
	f, err := os.Open(filepath.Join(w.dir, "exec"))
	require.NoError(t, err)
	defer f.Close()
	immutable := func(flags int) error {
		return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
	}
	if err := immutable(flagImmutable); err != nil {
		t.Skipf("files cannot be made immutable here: %v", err)
	}
	onMismatch := v1.FSGroupChangeOnRootMismatch
	r := Request{Group: 1234, Policy: &onMismatch}
	for range 2 {
		err = Apply(t.Context(), w.root, ".", r)
		require.ErrorContains(t, err, "fsGroup 1234")
		require.ErrorContains(t, err, "exec")
		assert.Equal(t, "drwxr-xr-x 0", w.look(t, "."))
		assert.Equal(t, "-rw-rw---- 1234", w.look(t, "ro"))
	}
	require.NoError(t, immutable(0))
	require.NoError(t, Apply(t.Context(), w.root, ".", r))
	assert.Equal(t, "-rwxrwxr-x 1234", w.look(t, "exec"))
}
