// SPDX-License-Identifier: Apache-2.0

package statfs_test

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/imagegc/statfs"
)

var _ imagegc.DiskUsage = (*statfs.Disk)(nil)

func TestPath(t *testing.T) {
	capacity, available, err := statfs.Path(t.TempDir()).ImageFS(t.Context())
	require.NoError(t, err)
	assert.Greater(t, capacity, uint64(1<<20))
	assert.LessOrEqual(t, available, capacity)
}

func TestFaults(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	_, _, err := statfs.Path(gone).ImageFS(t.Context())
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, gone)

	_, _, err = statfs.Path("").ImageFS(t.Context())
	require.ErrorContains(t, err, "no path")

	away := errors.New("the runtime is away")
	_, _, err = statfs.Func(func(context.Context) (string, error) { return "", away }).ImageFS(t.Context())
	require.ErrorIs(t, err, away)

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(away)
	_, _, err = statfs.Path(t.TempDir()).ImageFS(ctx)
	require.ErrorIs(t, err, away)
}
