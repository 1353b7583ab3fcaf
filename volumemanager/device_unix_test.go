// SPDX-License-Identifier: Apache-2.0

//go:build unix

package volumemanager

import (
	"os"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDeviceOfAFile(t *testing.T) {
	for _, name := range []string{t.TempDir(), "/dev"} {
		var want syscall.Stat_t
		require.NoError(t, syscall.Stat(name, &want))
		info, err := os.Stat(name)
		require.NoError(t, err)
		got, err := deviceOf(info)
		require.NoError(t, err)
		assert.Equal(t, uint64(want.Dev), got)
		assert.NotZero(t, got)
	}
	info, err := fstest.MapFS{"file": {}}.Stat("file")
	require.NoError(t, err)
	got, err := deviceOf(info)
	require.ErrorContains(t, err, "cannot tell on which file system a file is")
	assert.Zero(t, got)
}
