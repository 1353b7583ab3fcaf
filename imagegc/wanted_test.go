// SPDX-License-Identifier: Apache-2.0

package imagegc_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/imagegc/imagegctest"
)

// wanting is a node with pods that have not started.
type wanting struct {
	*imagegctest.Node
	names []string
}

func (w wanting) ImagesWanted(context.Context) ([]string, error) { return w.names, nil }

// A wanted image is kept. Unlike an image in use, an absent wanted image is plausible.
func TestWantedImagesAreKeptAndMayBeAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *imagegc.Options) {
			o.InUse = wanting{o.InUse.(*imagegctest.Node), []string{"r.example/i01:1"}}
		})
		_, err := f.gc.GarbageCollect(f.Context())
		require.NoError(t, err)
		f.node.Add(images(3)...)
		assert.Equal(t, []string{"r.example/i01:1"}, f.empty())
		f.node.Run("c", "r.example/i01:1")
		f.node.Lie(imagegctest.Lies{List: func([]imagegc.Image) []imagegc.Image { return nil }})
		_, err = f.gc.GarbageCollect(f.Context())
		require.ErrorIs(t, err, imagegc.ErrImplausibleList)
	})
}
