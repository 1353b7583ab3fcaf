// SPDX-License-Identifier: Apache-2.0

package testport_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/testport"
)

// The kernel may reuse a port released by a listener on port 0, but not the ports of Free.
func TestNoPortIsHandedOutTwice(t *testing.T) {
	seen := map[int]bool{}
	for range 200 {
		port := testport.Free(t)
		require.False(t, seen[port])
		seen[port] = true
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		require.NoError(t, err)
		defer l.Close()
	}
	for range 2000 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NotContains(t, seen, l.Addr().(*net.TCPAddr).Port)
		require.NoError(t, l.Close())
	}
}
