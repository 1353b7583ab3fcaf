// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Some runtimes list an image once per name. An image pinned in any entry stays.
func TestUpstreamDuplicateImageIsOne(t *testing.T) {
	list := []Image{
		{ID: "a", RepoTags: []string{"x:1"}, Size: 1},
		{ID: "a", Handler: "kata", Size: 9},
		{ID: "b", Size: 9},
		{ID: "a", RepoTags: []string{"x:1", "y:1"}, RepoDigests: []string{"x@sha256:d"}, Size: 2, Pinned: true},
		{ID: "a"},
		{RepoTags: []string{"nameless:1"}},
		{RepoTags: []string{"nameless:2"}},
	}
	before := slices.Clone(list[0].RepoTags)
	assert.Equal(t, []Image{
		{ID: "b", Size: 9},
		{ID: "a", Handler: "kata", Size: 9},
		{ID: "a", RepoTags: []string{"x:1", "y:1"}, RepoDigests: []string{"x@sha256:d"}, Size: 2, Pinned: true},
		{RepoTags: []string{"nameless:1"}},
		{RepoTags: []string{"nameless:2"}},
	}, merge(list))
	assert.Equal(t, before, list[0].RepoTags)
}

func TestImageName(t *testing.T) {
	assert.Equal(t, "x:1", Image{ID: "a", RepoTags: []string{"", noTag, "x:1"}, RepoDigests: []string{"x@d"}}.Name())
	assert.Equal(t, "x@d", Image{ID: "a", RepoTags: []string{noTag}, RepoDigests: []string{"x@d"}}.Name())
	assert.Equal(t, "a", Image{ID: "a"}.Name())
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 1 << 30: "1.0 GiB", 1 << 40: "1.0 TiB", 1 << 51: "2048.0 TiB",
	} {
		assert.Equal(t, want, formatBytes(n))
	}
}

// TestForStatus expects the biggest image first, then the highest ID, then the highest handler.
func TestForStatus(t *testing.T) {
	want := []Image{{ID: "a", Size: 2}, {ID: "b", Size: 1}, {ID: "a", Handler: "z", Size: 1}, {ID: "a", Handler: "y", Size: 1}, {ID: "a", Size: 1}}
	for i := range want {
		assert.Equal(t, want, forStatus(append(slices.Clone(want[i:]), want[:i]...)))
	}
}
