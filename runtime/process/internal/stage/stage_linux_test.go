// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestFailedChildIsReaped: the process between and its child report in any order, and both are
// reaped. CLONE_VFORK makes the child report first.
func TestFailedChildIsReaped(t *testing.T) {
	for _, flags := range []uintptr{0, unix.CLONE_VFORK} {
		s, err := newChild()
		require.NoError(t, err)
		defer s.close()
		s.dieWithParent()
		s.clone(uintptr(unix.SIGCHLD) | unix.CLONE_PARENT | flags)
		s.add(must, "close", unix.SYS_CLOSE, ^uintptr(0))
		_, err = s.run()
		require.EqualError(t, err, "close: bad file descriptor")
		_, err = unix.Wait4(-1, nil, unix.WNOHANG, nil)
		assert.ErrorIs(t, err, unix.ECHILD, "a process is left")
	}
}
