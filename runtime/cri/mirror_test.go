// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/runtime"
)

// The settings of containerd in docs/images.md: a mirror has precedence over the registry, the
// registry replaces a mirror that is out of order, and a mirror alone is enough.
func TestMirrors(t *testing.T) {
	t.Parallel()
	up := containerdtest.Image{Name: "app:1", Cmd: []string{"sleep", "1000"}, Files: map[string]string{"/from": t.Name()}}
	for name, tc := range map[string]struct {
		mirror, upstream containerdtest.Behaviour
		from             []int // layers of the mirror and of the registry
	}{
		"the mirror first":        {from: []int{1, 0}},
		"a mirror out of order":   {mirror: containerdtest.Behaviour{Unavailable: 1000}, from: []int{0, 1}},
		"a registry out of reach": {upstream: containerdtest.Behaviour{Unavailable: 1000}, from: []int{1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newPuller(t, runtime.Options{})
			image := up
			image.Files = map[string]string{"/from": t.Name()}
			upstream, mirror := containerdtest.StartRegistry(t, containerd.Get(t), image), containerdtest.StartRegistry(t, containerd.Get(t), image)
			upstream.Behave(tc.upstream)
			mirror.Behave(tc.mirror)
			host := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(t.Name(), "TestMirrors/")), "_", "-") + ".invalid"
			require.NoError(t, containerd.Get(t).Mirror(host, mirror.Host, upstream.Host))
			n.recovers(n.pod("", host+"/app:1"))
			assert.Equal(t, tc.from, []int{len(served(mirror)), len(served(upstream))})
		})
	}
}

// served are the layers that a registry sent.
func served(r *containerdtest.Registry) (all []containerdtest.Request) {
	for _, q := range r.Layers() {
		if q.Status == http.StatusOK || q.Status == http.StatusPartialContent {
			all = append(all, q)
		}
	}
	return all
}

// A layer that is cut off goes on with a range request within the pull.
func TestContainerdContinuesLayers(t *testing.T) {
	t.Parallel()
	n := newPuller(t, runtime.Options{})
	n.Behave(containerdtest.Behaviour{Ranges: true, Cuts: 3})
	n.runs(n.pod("one", n.Ref("app:1")))
	var ranges []string
	for _, q := range n.Layers() {
		ranges = append(ranges, q.Range)
	}
	require.Len(t, ranges, 4)
	assert.Empty(t, ranges[0])
	assert.NotContains(t, ranges[1:], "", "the bytes that are known are not asked for")
}
