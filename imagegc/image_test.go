// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Some runtimes list an image once per name. What keeps it in one place keeps it.
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
