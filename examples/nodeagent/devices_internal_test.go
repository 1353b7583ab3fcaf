// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver && !nodevices && linux

package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// TestSocketsOfFailedDevices requires that an agent that goes on without devices leaves no socket on which a client would
// wait for ever.
func TestSocketsOfFailedDevices(t *testing.T) {
	for name, blocked := range map[string]string{"of plug-ins": "plugins/kubelet.sock", "of pod resources": "pod-resources/kubelet.sock"} {
		t.Run(name, func(t *testing.T) {
			root, err := os.MkdirTemp("", "d") // a short path, for sockets
			require.NoError(t, err)
			t.Cleanup(func() { os.RemoveAll(root) })
			require.NoError(t, os.MkdirAll(filepath.Join(root, blocked, "in-the-way"), 0o700))
			var f flags
			f.root, f.devices.dir = root, filepath.Join(root, "plugins")
			d, err := newDevices(f, newMetrics("n"), zap.NewNop())
			require.NoError(t, err)
			require.Nil(t, d.manager)
			for _, path := range []string{"plugins/kubelet.sock", "pod-resources/kubelet.sock"} {
				_, err := net.Dial("unix", filepath.Join(root, path))
				require.Error(t, err, path)
			}
		})
	}
}
