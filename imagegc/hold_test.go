// SPDX-License-Identifier: Apache-2.0

package imagegc_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/imagegc/imagegctest"
)

const gib = 1 << 30

// image returns an image with a layer of its own of 1 GiB.
func image(tags ...string) imagegctest.Image {
	return imagegctest.Image{Tags: tags, Layers: map[string]uint64{tags[0]: gib}}
}

// fixture is a collector over a node of 100 GiB with images older than MinAge.
type fixture struct {
	*testing.T
	node *imagegctest.Node
	gc   *imagegc.Collector
}

// newFixture must be called in a synctest bubble.
func newFixture(t *testing.T, edit func(*imagegc.Options), images ...imagegctest.Image) *fixture {
	t.Helper()
	f := &fixture{T: t, node: imagegctest.New(100 * gib)}
	f.node.Add(images...)
	opts := imagegc.Options{Images: f.node, InUse: f.node, Disk: f.node, Policy: imagegc.Policy{MinAge: -1}}
	if edit != nil {
		edit(&opts)
	}
	var err error
	f.gc, err = imagegc.New(opts)
	require.NoError(t, err)
	return f
}

func (f *fixture) hold(references ...string) *imagegc.Lease {
	f.Helper()
	lease, err := f.gc.Hold(f.Context(), references...)
	require.NoError(f, err)
	return lease
}

// empty removes all unused images and returns the remaining tags.
func (f *fixture) empty() []string {
	f.Helper()
	_, err := f.gc.DeleteUnusedImages(f.Context())
	require.NoError(f, err)
	assert.Empty(f, f.node.Violations())
	return f.node.Tags()
}

func TestHeldImagesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := image("r.example/team/app:1", "r.example/app:latest")
		f := newFixture(t, nil, app, image("docker.io/library/box:latest"), image("r.example/old:1"))
		lease := f.hold("app:1", "box", "", "r.example/not-here:1")
		assert.Equal(t, []string{"docker.io/library/box:latest", "r.example/app:latest", "r.example/team/app:1"}, f.empty())
		other := f.hold("elsewhere.example/app@" + app.Digest())
		lease.Release()
		lease.Release()
		assert.Equal(t, []string{"r.example/app:latest", "r.example/team/app:1"}, f.empty())
		other.Release()
		assert.Empty(t, f.empty())
		present, err := other.Resolved(t.Context(), app.ID())
		assert.False(t, present)
		assert.ErrorIs(t, err, imagegc.ErrReleased)
	})
}

// An image being removed is gone when Hold returns, so that a later check leads to a new pull.
func TestHoldWaitsForTheRemovalUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, image("r.example/app:1"), image("r.example/other:1"))
		busy, proceed := make(chan struct{}), make(chan struct{})
		f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
			if c.Method == "RemoveImage" && c.Image == image("r.example/app:1").ID() {
				close(busy)
				<-proceed
			}
			return nil
		}
		go f.gc.DeleteUnusedImages(t.Context())
		<-busy
		f.hold("r.example/third:1").Release() // other images do not wait

		ctx, cancel := context.WithCancelCause(t.Context())
		gaveUp := errors.New("the pod is gone")
		go func() {
			time.Sleep(time.Second)
			cancel(gaveUp)
		}()
		_, err := f.gc.Hold(ctx, "r.example/app:1")
		require.ErrorIs(t, err, gaveUp)
		require.ErrorContains(t, err, "r.example/app:1")

		held := make(chan *imagegc.Lease)
		go func() { held <- f.hold("r.example/app:1") }()
		synctest.Wait()
		select {
		case <-held:
			t.Error("Hold returned while the image was being removed")
		default:
		}
		close(proceed)
		lease := <-held
		defer lease.Release()
		id, err := f.node.Status(t.Context(), "r.example/app:1")
		require.NoError(t, err)
		assert.Empty(t, id)
		id, err = f.node.Pull(t.Context(), "r.example/app:1")
		require.NoError(t, err)
		present, err := lease.Resolved(t.Context(), id)
		require.NoError(t, err)
		assert.True(t, present, "what went before Hold returned does not matter")
		synctest.Wait()
	})
}

// A lease may end during a pass that has read the images in use before the container was created.
func TestLeaseThatEndsDuringAPassStillCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, image("r.example/app:1"))
		f.node.Hook = func(ctx context.Context, c imagegctest.Call) error {
			if c.Method == "ImageFS" && len(f.node.Calls("ImageFS")) == 1 { // after the inspection, before the first removal
				lease, err := f.gc.Hold(ctx, "r.example/app:1")
				if err != nil {
					return err
				}
				defer lease.Release()
				return f.node.Create(ctx, "web", "r.example/app:1")
			}
			return nil
		}
		assert.Equal(t, []string{"r.example/app:1"}, f.empty())
		f.node.Hook = nil
		f.node.Stop("web")
		assert.Empty(t, f.empty(), "later it counts no more")
	})
}

// A lease released during a pass counts until the next inspection, and no longer.
func TestLeaseThatEndsDuringAPassEndsWithTheNextLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, images(20)...)
		lease := f.hold("r.example/i00:1")
		f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
			if c.Method == "RemoveImage" {
				lease.Release()
			}
			return nil
		}
		assert.Empty(t, f.empty())
	})
}

// A tag moves on while a pod is about to be created from the tag's former image.
func TestTagThatMovesIsHeldOnBothImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, image("r.example/app:1"))
		require.NoError(t, f.gc.Detect(t.Context()))
		lease := f.hold("r.example/app:1")
		was, err := f.node.Status(t.Context(), "r.example/app:1")
		require.NoError(t, err)
		f.node.Add(imagegctest.Image{Tags: []string{"r.example/app:1"}, Layers: map[string]uint64{"new": gib}})
		f.empty()
		require.NoError(t, f.node.Create(t.Context(), "a", was))
		require.NoError(t, f.node.Create(t.Context(), "b", "r.example/app:1"))
		lease.Release()
		f.empty()
		require.NoError(t, f.node.Create(t.Context(), "c", was))
	})
}

// A pulled image turns out to be a listed image under another name, which is removed at the same
// moment.
func TestResolvedTellsOfAnImageThatWentMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := image("r.example/app:1", "mirror.example/app:1")
		f := newFixture(t, nil)
		f.node.Publish(app)
		_, err := f.node.Pull(t.Context(), "r.example/app:1")
		require.NoError(t, err)

		lease := f.hold("mirror.example/app:1")
		defer lease.Release()
		var id string
		f.node.Hook = func(ctx context.Context, c imagegctest.Call) (err error) {
			if c.Method == "RemoveImage" { // the claim was made
				f.node.Hook = nil
				id, err = f.node.Pull(ctx, "mirror.example/app:1")
			}
			return err
		}
		f.empty()
		require.Equal(t, app.ID(), id)
		require.Empty(t, f.node.Tags(), "the pull was in vain")

		present, err := lease.Resolved(t.Context(), id)
		require.NoError(t, err)
		require.False(t, present)
		_, err = f.node.Pull(t.Context(), "mirror.example/app:1")
		require.NoError(t, err)
		present, err = lease.Resolved(t.Context(), id)
		require.NoError(t, err)
		require.True(t, present)
		f.empty()
		require.NoError(t, f.node.Create(t.Context(), "a", "mirror.example/app:1"))
	})
}

func TestResolvedWaitsForTheRemovalUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := image("r.example/app:1", "mirror.example/app:1")
		f := newFixture(t, nil)
		f.node.Publish(app)
		_, err := f.node.Pull(t.Context(), "r.example/app:1")
		require.NoError(t, err)
		lease := f.hold("mirror.example/app:1")
		proceed := make(chan struct{})
		f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
			if c.Method == "RemoveImage" {
				<-proceed
			}
			return nil
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, err := f.gc.DeleteUnusedImages(t.Context())
			assert.NoError(t, err)
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		present, err := lease.Resolved(ctx, app.ID())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, present)
		another := f.hold("mirror.example/app:1")
		go func() {
			time.Sleep(time.Minute)
			close(proceed)
		}()
		before := time.Now()
		present, err = another.Resolved(t.Context(), app.ID())
		require.NoError(t, err)
		require.False(t, present)
		require.Equal(t, time.Minute, time.Since(before))
		another.Release()
		<-ended
		present, err = lease.Resolved(t.Context(), app.ID())
		require.NoError(t, err)
		require.False(t, present, "the one who gave up waiting was not told yet")
		present, err = lease.Resolved(t.Context(), app.ID())
		require.NoError(t, err)
		require.True(t, present, "told once, and held since")
		lease.Release()
	})
}
