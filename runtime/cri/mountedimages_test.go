// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// Mounted images are in use, including mounts made by an earlier agent. Each container is asked
// about once.
func TestImagesInUseNamesMountedImages(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	r := rt.(*client)
	_, plain := made(t, rt, "a")
	_, mounting := made(t, rt, "b")
	s.edit(mounting, func(c *api.ContainerStatus) {
		c.Mounts = []*api.Mount{
			{HostPath: "/data", ContainerPath: "/data"},
			{Image: &api.ImageSpec{Image: "sha256:7001", UserSpecifiedImage: "localhost/tools:1"}, ContainerPath: "/tools"},
			{Image: &api.ImageSpec{Image: "localhost/others:1"}, ContainerPath: "/others"},
		}
	})

	names, err := rt.ImagesInUse(t.Context())
	require.NoError(t, err)
	assert.NotContains(t, names, "sha256:7001")
	assert.Zero(t, s.count("ContainerStatus"), "a runtime that mounts no images is not asked")

	r.info.ImageVolumes = true
	for range 3 {
		names, err = rt.ImagesInUse(t.Context())
		require.NoError(t, err)
		assert.Subset(t, names, []string{"sha256:7001", "localhost/tools:1", "localhost/others:1"})
	}
	assert.Equal(t, 2, s.count("ContainerStatus"), "once each")

	_, third := made(t, rt, "c")
	s.fail("ContainerStatus", codes.NotFound, "gone")
	_, err = rt.ImagesInUse(t.Context())
	require.NoError(t, err, "one that is gone meanwhile uses nothing")
	s.fail("ContainerStatus", codes.Unavailable, "away")
	_, err = rt.ImagesInUse(t.Context())
	require.ErrorContains(t, err, "mounts of container "+third.ID, "what is not known is not guessed")
	s.inTheWay(nil)

	require.NoError(t, rt.RemoveContainer(t.Context(), mounting))
	require.NoError(t, rt.RemoveContainer(t.Context(), plain))
	names, err = rt.ImagesInUse(t.Context())
	require.NoError(t, err)
	assert.NotContains(t, names, "sha256:7001")
	_, err = rt.List(t.Context(), runtime.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, r.mu.mounted, 1, "what is gone is forgotten")
}
