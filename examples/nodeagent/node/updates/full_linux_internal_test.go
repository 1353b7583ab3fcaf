// SPDX-License-Identifier: Apache-2.0

package updates

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFullDisk stores records on a disk without a free byte. The reserve is enough for the next
// record. Later the last record stays readable, and a disk with room takes a record again.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts a small disk")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("no small disk: ", err)
	}
	defer syscall.Unmount(dir, 0)
	s, err := openStore(dir)
	require.NoError(t, err)
	defer s.close()
	a, old := versionWith(t, "web:1")
	b, fresh := versionWith(t, "web:2")
	id, all := idOf("file", old[0]), versions{{a, old}, {b, fresh}}
	stored := func() Record {
		units, errs := s.load()
		require.Empty(t, errs)
		require.Len(t, units, 1)
		require.NoError(t, units[0].lost)
		return units[0].Record
	}
	fill := func() {
		f, err := os.OpenFile(dir+"/filling", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		require.NoError(t, err)
		defer f.Close()
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
	require.NoError(t, s.save(id, &Record{Phase: Steady, Good: a}, all))
	fill()
	require.NoError(t, s.save(id, &Record{Phase: Staging, Good: a, Next: b}, all), "the reserve is given up")
	assert.Equal(t, Staging, stored().Phase)
	fill()
	require.ErrorIs(t, s.save(id, &Record{Phase: Proving, Good: a, Next: b}, all), syscall.ENOSPC)
	assert.Equal(t, Staging, stored().Phase, "the last record stays")
	require.NoError(t, os.Remove(dir+"/filling"))
	require.NoError(t, s.save(id, &Record{Phase: Steady, Good: b}, all))
	assert.Equal(t, b, stored().Good)
}
