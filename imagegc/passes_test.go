// SPDX-License-Identifier: Apache-2.0

package imagegc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/imagegc/imagegctest"
)

// keeps returns the image, reason and detail of each kept image.
func keeps(kept []imagegc.Kept) (out []string) {
	for _, k := range kept {
		out = append(out, fmt.Sprintf("%s %s %s", strings.TrimPrefix(k.Image.Name(), "r.example/"), k.Reason, k.Detail))
	}
	return out
}

// The times of a pass and of its removals are those of the clock.
func TestTimesOfAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, images(3)...)
		f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
			if c.Method == "RemoveImage" {
				time.Sleep(time.Second)
			}
			return nil
		}
		began := time.Now()
		result, err := f.gc.DeleteUnusedImages(t.Context())
		require.NoError(t, err)
		assert.True(t, result.Started.Equal(began))
		assert.True(t, result.Ended.Equal(began.Add(3*time.Second)))
		for i, r := range result.Removed {
			assert.True(t, r.At.Equal(began.Add(time.Duration(i+1)*time.Second)))
		}
	})
}

// Plan makes its decisions although the records cannot be read, and tells both. Without a list there are
// no decisions.
func TestPlanTellsItsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *imagegc.Options) { o.Store = &unread{} }, images(2)...)
		plan, err := f.gc.Plan(t.Context(), imagegc.GoalUnused)
		storeErr, ok := errors.AsType[*imagegc.StoreError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, "load", storeErr.Op)
		assert.Len(t, plan.Remove, 2)
		f.node.Hook = func(context.Context, imagegctest.Call) error { return errors.New("away") }
		_, err = f.gc.Plan(t.Context(), imagegc.GoalUnused)
		require.EqualError(t, err, "list images: away")
	})
}

// unread is a Store that cannot be read, and cannot be written while broken.
type unread struct {
	memory
	broken error
}

func (*unread) Load(context.Context) ([]imagegc.Record, error) { return nil, errors.New("corrupt") }

func (u *unread) Save(ctx context.Context, records []imagegc.Record) error {
	if u.broken != nil {
		return u.broken
	}
	return u.memory.Save(ctx, records)
}

// A detection tells that the records cannot be read or written. Records that could not be written are
// written by the next detection, although nothing has changed meanwhile.
func TestDetectTellsFailuresOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &unread{}
		f := newFixture(t, func(o *imagegc.Options) { o.Store = store }, images(1)...)
		require.EqualError(t, f.gc.Detect(t.Context()), "load image records: corrupt")
		require.Len(t, store.records, 1)
		f.node.Add(images(2)...)
		store.broken = errors.New("full")
		require.EqualError(t, f.gc.Detect(t.Context()), "save image records: full")
		store.broken = nil
		require.NoError(t, f.gc.Detect(t.Context()))
		assert.Len(t, store.records, 2)
	})
}

// The result of a dry run names the kept images, as that of another pass.
func TestKeptImagesOfADryRun(t *testing.T) {
	for _, dry := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, func(o *imagegc.Options) { o.DryRun = dry }, images(3)...)
			f.node.Run("c", "r.example/i01:1")
			result, err := f.gc.DeleteUnusedImages(t.Context())
			require.NoError(t, err)
			require.Len(t, result.Kept, 1)
			assert.Equal(t, "r.example/i01:1", result.Kept[0].Image.Name())
			assert.Equal(t, imagegc.KeepInUse, result.Kept[0].Reason)
		})
	}
}

// The kept images are sorted by name, whenever and why the pass kept them. An image that gets a lease
// during the pass, or cannot be removed, is no removal: the disk is not measured.
func TestKeptImagesAreSorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *fixture
		f = newFixture(t, func(o *imagegc.Options) {
			o.OnRemoved = func(imagegc.Removed) {
				for _, name := range []string{"i01", "i03", "i05", "i07"} {
					f.hold("r.example/" + name + ":1")
				}
			}
		}, images(10)...)
		f.node.Add(imagegctest.Image{Tags: []string{"r.example/big:1"}, Layers: map[string]uint64{"big": 2 * gib}}) // removed first
		failing := map[string]bool{}
		for _, i := range []int{0, 2, 4, 8} {
			failing[images(10)[i].ID()] = true
		}
		f.node.Run("a", "r.example/i06:1")
		f.node.Run("b", "r.example/i09:1")
		f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
			if c.Method == "RemoveImage" && failing[c.Image] {
				return errors.New("busy")
			}
			return nil
		}
		result, err := f.gc.DeleteUnusedImages(t.Context())
		require.Error(t, err)
		var got []string
		for _, k := range result.Kept {
			got = append(got, fmt.Sprintf("%s %s", strings.TrimPrefix(k.Image.Name(), "r.example/"), k.Reason))
		}
		assert.Equal(t, []string{
			"i00:1 its removal failed", "i01:1 held", "i02:1 its removal failed", "i03:1 held", "i04:1 its removal failed",
			"i05:1 held", "i06:1 in use", "i07:1 held", "i08:1 its removal failed", "i09:1 in use",
		}, got)
		assert.Len(t, f.node.Calls("ImageFS"), 2)
	})
}

// After the end of ctx no further image is tried. The result is silent about the images that the pass
// did not reach, and about a lack of space.
func TestEndDuringAPass(t *testing.T) {
	stop := errors.New("the node shuts down")
	for name, collect := range map[string]func(*imagegc.Collector, context.Context) (imagegc.Result, error){
		"threshold": (*imagegc.Collector).GarbageCollect, "unused": (*imagegc.Collector).DeleteUnusedImages,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				f := newFixture(t, nil, images(20)...)
				f.node.Fill(90 * gib)
				f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
					if c.Method == "RemoveImage" && len(f.node.Calls("RemoveImage")) == 2 {
						cancel(stop)
						return errors.New("busy")
					}
					return nil
				}
				result, err := collect(f.gc, ctx)
				require.ErrorIs(t, err, stop)
				assert.Equal(t, 1, strings.Count(err.Error(), stop.Error()), "told once: %v", err)
				_, short := errors.AsType[*imagegc.NotEnoughError](err)
				assert.False(t, short, "%v", err)
				assert.Len(t, f.node.Calls("RemoveImage"), 2)
				require.Len(t, result.Kept, 1)
				assert.Equal(t, imagegc.KeepFailed, result.Kept[0].Reason)
			})
		})
	}
}

// A call whose ctx has ended asks nothing.
func TestCallsAfterTheEndOfTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, images(2)...)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 50 {
			_, err := f.gc.GarbageCollect(ctx)
			require.ErrorIs(t, err, context.Canceled)
		}
		assert.Empty(t, f.node.Calls("ListImages"))
	})
}

// Each image without an ID and each lack of space is an event, whatever else is kept or has failed.
func TestEventsAmongOtherFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		f := newFixture(t, func(o *imagegc.Options) {
			o.Events = imagegc.EventFunc(func(_, reason, _ string) { events = append(events, reason) })
		}, images(3)...)
		f.node.Run("c", "r.example/i00:1")
		f.node.Fill(95 * gib)
		f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
			if c.Method == "RemoveImage" {
				return errors.New("busy")
			}
			return nil
		}
		f.node.Lie(imagegctest.Lies{List: func(l []imagegc.Image) []imagegc.Image {
			return append(l, imagegc.Image{RepoTags: []string{"x:1"}}, imagegc.Image{RepoTags: []string{"y:1"}, Handler: "vm"})
		}})
		_, err := f.gc.GarbageCollect(t.Context())
		require.Error(t, err)
		assert.Equal(t, []string{"InvalidImageID", "InvalidImageID", "FreeDiskSpaceFailed"}, events)
	})
}

// A lease or a container may name an image without its registry, whatever other leases hold.
func TestShortNamesAmongOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, append(images(8), image("r.example/team/app:1"))...)
		for i := range 8 {
			defer f.hold(fmt.Sprintf("r.example/i%02d:1", i)).Release()
		}
		short := f.hold("app:1")
		for range 10 { // the order of the leases is random
			plan, err := f.gc.Plan(t.Context(), imagegc.GoalUnused)
			require.NoError(t, err)
			require.Len(t, plan.Keep, 9)
			require.Empty(t, plan.Remove)
		}
		short.Release()
		f.node.Lie(imagegctest.Lies{InUse: func([]string) []string { return []string{"app:1"} }})
		plan, err := f.gc.Plan(t.Context(), imagegc.GoalUnused)
		require.NoError(t, err)
		assert.Contains(t, keeps(plan.Keep), "team/app:1 in use app:1")
	})
}

// An image with several references in leases is named by the first of them.
func TestFirstReferenceOfTheLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, image("r.example/b:1", "r.example/a:1", "r.example/c:1"))
		for _, tag := range []string{"r.example/b:1", "r.example/c:1", "r.example/a:1", "r.example/b:1"} {
			defer f.hold(tag).Release()
		}
		for range 10 { // the order of the leases is random
			plan, err := f.gc.Plan(t.Context(), imagegc.GoalUnused)
			require.NoError(t, err)
			require.Len(t, plan.Keep, 1)
			require.Equal(t, "r.example/a:1", plan.Keep[0].Detail)
		}
	})
}

// moved returns the IDs of three tags' images, before the tags move to new images.
func (f *fixture) moved(tags []string) (ids []string) {
	for _, tag := range tags {
		ids = append(ids, image(tag).ID())
		f.node.Add(imagegctest.Image{Tags: []string{tag}, Layers: map[string]uint64{"new " + tag: gib}})
	}
	return ids
}

// A lease holds the images of all its references when the tags move: images that were known at Hold, and
// images that came later.
func TestAllTagsOfALeaseMove(t *testing.T) {
	tags := []string{"r.example/a:1", "r.example/b:1", "r.example/c:1"}
	for _, early := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, nil)
			add := func() {
				for _, tag := range tags {
					f.node.Add(image(tag))
				}
				require.NoError(t, f.gc.Detect(t.Context()))
			}
			if early {
				add()
			}
			defer f.hold(tags...).Release()
			if !early {
				add()
			}
			ids := f.moved(tags)
			f.empty()
			for _, id := range ids {
				require.NoError(t, f.node.Create(t.Context(), id, id))
			}
		})
	}
}

// Each lease of a reference holds the image alone, after its tag has moved and the other leases have
// ended.
func TestSeveralLeasesOfATagThatMoves(t *testing.T) {
	for remaining := range 3 {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, nil)
			tags := []string{"r.example/a:1"}
			var leases []*imagegc.Lease
			for range 3 {
				leases = append(leases, f.hold(tags...))
			}
			f.node.Add(image(tags[0]))
			require.NoError(t, f.gc.Detect(t.Context()))
			ids := f.moved(tags)
			for i, lease := range leases {
				if i != remaining {
					lease.Release()
				}
			}
			f.empty()
			require.NoError(t, f.node.Create(t.Context(), "c", ids[0]))
			leases[remaining].Release()
		})
	}
}

// The removal of another image does not matter to Resolved.
func TestResolvedAfterOtherRemovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, images(3)...)
		lease := f.hold("r.example/i00:1")
		defer lease.Release()
		require.Equal(t, []string{"r.example/i00:1"}, f.empty())
		present, err := lease.Resolved(t.Context(), images(1)[0].ID())
		require.NoError(t, err)
		assert.True(t, present)
	})
}

// A held image counts as used: its idle time begins with the last detection of the lease.
func TestHeldImagesAreNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *imagegc.Options) { o.Policy.MaxAge = time.Hour }, images(2)...)
		lease := f.hold("r.example/i00:1")
		require.NoError(t, f.gc.Detect(t.Context()))
		time.Sleep(2 * time.Hour)
		require.NoError(t, f.gc.Detect(t.Context()))
		lease.Release()
		assert.Equal(t, []string{"i01"}, names(f.collect().Removed))
	})
}

// All wanted images are kept.
func TestAllWantedImagesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *imagegc.Options) {
			o.InUse = wanting{o.InUse.(*imagegctest.Node), []string{"r.example/i01:1", "r.example/i03:1", "r.example/i04:1"}}
		}, images(5)...)
		assert.Equal(t, []string{"r.example/i01:1", "r.example/i03:1", "r.example/i04:1"}, f.empty())
	})
}

// A node without images: a single image in use is implausible, and a failed question is a failure.
func TestEmptyListBesideOtherAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var used []string
		f := newFixture(t, nil)
		f.node.Lie(imagegctest.Lies{InUse: func([]string) []string { return used }})
		require.NoError(t, f.gc.Detect(t.Context()))
		used = []string{"r.example/a:1"}
		require.ErrorIs(t, f.gc.Detect(t.Context()), imagegc.ErrImplausibleList)
		used = []string{""}
		require.ErrorIs(t, f.gc.Detect(t.Context()), imagegc.ErrUnknownImageInUse)
		f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
			if c.Method == "ImagesInUse" {
				return errors.New("away")
			}
			return nil
		}
		require.EqualError(t, f.gc.Detect(t.Context()), "list images in use: away")
		again := newFixture(t, func(o *imagegc.Options) { o.InUse = failingWanted{o.InUse.(*imagegctest.Node)} })
		require.EqualError(t, again.gc.Detect(t.Context()), "list wanted images: away")
	})
}

// Values beside an error of the disk are no measurement.
func TestValuesBesideAnErrorOfTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *imagegc.Options) {
			o.Disk = brokenDisk{errors.New("old")}
		}, images(2)...)
		result, err := f.gc.DeleteUnusedImages(t.Context())
		require.NoError(t, err)
		assert.Zero(t, result.UsagePercent)
		assert.EqualValues(t, 2*gib, result.Freed)
	})
}

// hung is a Store whose Save does not end by itself.
type hung struct{ memory }

func (*hung) Save(ctx context.Context, _ []imagegc.Record) error { <-ctx.Done(); return ctx.Err() }

// The write of the records ends after CallTimeout, as each other call.
func TestSaveHasItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *imagegc.Options) { o.Store = &hung{} }, images(1)...)
		began := time.Now()
		require.EqualError(t, f.gc.Detect(t.Context()), "save image records: context deadline exceeded")
		assert.Equal(t, imagegc.CallTimeout, time.Since(began))
	})
}

// brokenDisk returns values beside its error.
type brokenDisk struct{ err error }

func (d brokenDisk) ImageFS(context.Context) (capacity, available uint64, err error) {
	return 100 * gib, 50 * gib, d.err
}
