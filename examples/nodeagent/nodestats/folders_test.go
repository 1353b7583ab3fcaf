// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A folder is listed again after each change, and not without one.
func TestFoldersAreListedAfterAChange(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "f")
	var f folders
	require.Empty(t, f.in(folder))
	make := func(name string) { require.NoError(t, os.MkdirAll(filepath.Join(folder, name), 0o755)) }
	make("b")
	make(".hidden")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "file"), nil, 0o600))
	require.Equal(t, []string{"b"}, f.in(folder))
	make("a") // perhaps without a change of the time
	require.Equal(t, []string{"a", "b"}, f.in(folder))

	long := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(folder, long, long))
	require.Equal(t, []string{"a", "b"}, f.in(folder))
	make("c")
	require.NoError(t, os.Chtimes(folder, long, long))
	require.Equal(t, []string{"a", "b"}, f.in(folder), "no change is seen, and it is not listed")
	now := time.Now()
	require.NoError(t, os.Chtimes(folder, now, now))
	require.Equal(t, []string{"a", "b", "c"}, f.in(folder))

	f.known.Forget()
	f.known.Forget()
	require.Zero(t, *f.known.Get(folder))
	require.NoError(t, os.RemoveAll(folder))
	require.Empty(t, f.in(folder))
}
