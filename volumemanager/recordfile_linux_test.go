// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRecordOutlivesLackOfFiles: an agent with too many open files fails before it has checked
// whether a record exists. The record of a volume in use must not be taken for a new record.
func TestRecordOutlivesLackOfFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "v.mount.json")
	dir, err := os.OpenRoot(filepath.Dir(name))
	require.NoError(t, err)
	defer dir.Close()
	existed, err := write(dir, filepath.Base(name), []byte("first"), true)
	require.NoError(t, err)
	assert.False(t, existed)

	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	none := limit
	none.Cur = 0
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	_, err = write(dir, filepath.Base(name), []byte("second"), true)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	require.ErrorIs(t, err, syscall.EMFILE)
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, "first", string(data))

	existed, err = write(dir, filepath.Base(name), []byte("second"), true)
	require.NoError(t, err)
	assert.True(t, existed)
	data, err = os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, "second", string(data))
	assert.NoFileExists(t, name+temporary)
}
