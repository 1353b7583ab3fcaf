// SPDX-License-Identifier: Apache-2.0

package imagegctest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/imagegc/imagegctest"
)

var (
	_ imagegc.ImageService = (*imagegctest.Node)(nil)
	_ imagegc.InUse        = (*imagegctest.Node)(nil)
	_ imagegc.DiskUsage    = (*imagegctest.Node)(nil)
)

func TestNodeBehavesLikeOne(t *testing.T) {
	ctx := t.Context()
	n := imagegctest.New(100)
	base := map[string]uint64{"base": 20, "a": 5}
	n.Add(imagegctest.Image{Tags: []string{"r/a:1"}, Layers: base}, imagegctest.Image{Tags: []string{"r/b:1"}, Layers: map[string]uint64{"base": 20, "b": 7}})
	n.Publish(imagegctest.Image{Tags: []string{"r/a:1"}, Layers: map[string]uint64{"new": 1}})
	available := func() uint64 {
		_, available, err := n.ImageFS(ctx)
		require.NoError(t, err)
		return available
	}
	assert.EqualValues(t, 68, available(), "shared layers are there once")
	list, err := n.ListImages(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 25+27, list[0].Size+list[1].Size, "and in every size")

	old, err := n.Status(ctx, "r/a:1")
	require.NoError(t, err)
	require.NoError(t, n.Create(ctx, "c", "r/a:1"))
	id, err := n.Pull(ctx, "r/a:1")
	require.NoError(t, err)
	assert.NotEqual(t, old, id, "the tag has moved")
	require.NoError(t, n.RemoveImage(ctx, imagegc.Image{ID: old, RepoTags: []string{"r/a:1"}}))
	assert.Equal(t, []string{"image r/a:1 was removed while container c used it"}, n.Violations())
	assert.EqualValues(t, 72, available())
	require.NoError(t, n.RemoveImage(ctx, imagegc.Image{ID: old}), "one that is not there is no error")
	require.ErrorIs(t, n.Create(ctx, "d", old), imagegctest.ErrNoImage)
	_, err = n.Pull(ctx, "r/none:1")
	require.ErrorIs(t, err, imagegctest.ErrNoImage)

	used, err := n.ImagesInUse(ctx)
	require.NoError(t, err)
	assert.Equal(t, []string{old, "r/a:1"}, used)
	n.Stop("c")
	used, err = n.ImagesInUse(ctx)
	require.NoError(t, err)
	assert.Empty(t, used)

	away := errors.New("away")
	n.Hook = func(context.Context, imagegctest.Call) error { return away }
	_, err = n.ListImages(ctx)
	require.ErrorIs(t, err, away)
	assert.Len(t, n.Calls("ListImages"), 2)
}
