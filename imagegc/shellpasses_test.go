// SPDX-License-Identifier: Apache-2.0

package imagegc_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/imagegc/imagegctest"
)

// An image that cannot be removed is tried once in a pass, also if the images are listed after each
// removal, and the result names the image.
func TestFailedRemovalIsTriedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, images(3)...)
		defer f.hold("r.example/being-pulled:1").Release()
		f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
			if c.Method == "RemoveImage" && c.Image == images(1)[0].ID() {
				return errors.New("busy")
			}
			return nil
		}
		result, err := f.gc.DeleteUnusedImages(t.Context())
		require.Error(t, err)
		assert.Len(t, f.node.Calls("RemoveImage"), 3)
		assert.Equal(t, map[string]imagegc.KeepReason{"i00": imagegc.KeepFailed}, reasons(result.Kept))
	})
}

// The time of the next pass is that of the images that are too young, whatever else is kept.
func TestRetryAmongOtherKeptImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *imagegc.Options) { o.Policy.MinAge = 10 * time.Minute }, images(3)...)
		f.node.Run("a", "r.example/i00:1")
		f.node.Run("z", "r.example/i02:1")
		f.node.Fill(90 * gib)
		result, err := f.gc.GarbageCollect(t.Context())
		require.Error(t, err)
		assert.Equal(t, map[string]imagegc.KeepReason{"i00": imagegc.KeepInUse, "i01": imagegc.KeepTooYoung, "i02": imagegc.KeepInUse}, reasons(result.Kept))
		assert.True(t, result.RetryAt.Equal(time.Now().Add(10*time.Minute)), "%v", result.RetryAt)
	})
}

// A disk without a size is an event.
func TestInvalidCapacityIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		f := newFixture(t, func(o *imagegc.Options) {
			o.Events = imagegc.EventFunc(func(kind, reason, _ string) { events = append(events, kind+" "+reason) })
		}, images(2)...)
		f.node.Lie(imagegctest.Lies{Disk: func(uint64, uint64) (uint64, uint64) { return 0, 0 }})
		_, err := f.gc.GarbageCollect(t.Context())
		require.ErrorIs(t, err, imagegc.ErrInvalidCapacity)
		assert.Equal(t, []string{"Warning InvalidDiskCapacity"}, events)
	})
}

// An image that gets a lease during a pass is kept, and the result names a reference; so is an image
// whose lease has ended during the pass.
func TestLeaseDuringAPassIsNamed(t *testing.T) {
	for name, ends := range map[string]func(*imagegc.Lease){"held": func(*imagegc.Lease) {}, "released": (*imagegc.Lease).Release} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f *fixture
				var lease *imagegc.Lease
				f = newFixture(t, func(o *imagegc.Options) {
					o.OnRemoved = func(imagegc.Removed) {
						if lease == nil {
							lease = f.hold("r.example/i01:1")
							ends(lease)
						}
					}
				}, images(2)...)
				result, err := f.gc.DeleteUnusedImages(t.Context())
				require.NoError(t, err)
				require.Len(t, result.Kept, 1)
				assert.Equal(t, imagegc.KeepHeld, result.Kept[0].Reason)
				assert.NotEmpty(t, result.Kept[0].Detail)
			})
		})
	}
}

// A second release changes nothing, also during a pass.
func TestSecondReleaseDuringAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lease *imagegc.Lease
		f := newFixture(t, func(o *imagegc.Options) { o.OnRemoved = func(imagegc.Removed) { lease.Release() } }, images(2)...)
		lease = f.hold("r.example/i00:1", "r.example/i01:1")
		lease.Release()
		assert.Empty(t, f.empty())
	})
}

// A Hold that was given up holds nothing.
func TestHoldThatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, images(1)...)
		busy, proceed := make(chan struct{}), make(chan struct{})
		f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
			if c.Method == "RemoveImage" {
				close(busy)
				<-proceed
				return errors.New("busy")
			}
			return nil
		}
		go f.gc.DeleteUnusedImages(t.Context())
		<-busy
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := f.gc.Hold(ctx, "r.example/i00:1")
		require.ErrorIs(t, err, context.Canceled)
		close(proceed)
		synctest.Wait()
		f.node.Hook = nil
		assert.Empty(t, f.empty())
	})
}

// The removals since the oldest lease are remembered, whatever newer leases end.
func TestOldestLeaseKnowsRemovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, images(1)...)
		id := images(1)[0].ID()
		oldest := f.hold("r.example/other:1")
		defer oldest.Release()
		assert.Empty(t, f.empty())
		for i := range 30 {
			lease := f.hold("r.example/newer:1")
			if i < 29 {
				defer lease.Release()
			} else {
				lease.Release()
			}
		}
		present, err := oldest.Resolved(t.Context(), id)
		require.NoError(t, err)
		assert.False(t, present, "the image was removed after Hold")
	})
}

// Each lease learns the images of its references from a pass, and keeps them when the tags move.
func TestTagsOfSeveralLeasesMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		tags := []string{"r.example/a:1", "r.example/b:1", "r.example/c:1", "r.example/d:1"}
		for _, tag := range tags {
			defer f.hold(tag).Release()
		}
		var ids []string
		for _, tag := range tags {
			f.node.Add(image(tag))
			ids = append(ids, image(tag).ID())
		}
		require.NoError(t, f.gc.Detect(t.Context()))
		for _, tag := range tags {
			f.node.Add(imagegctest.Image{Tags: []string{tag}, Layers: map[string]uint64{"new " + tag: gib}})
		}
		f.empty()
		for _, id := range ids {
			require.NoError(t, f.node.Create(t.Context(), id, id))
		}
	})
}

// A reference that matches an image by one of its forms is not being pulled.
func TestOneFormOfAReferenceIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, append(images(17), image("docker.io/library/box:latest"))...)
		for range 8 {
			defer f.hold("box").Release()
		}
		_, err := f.gc.DeleteUnusedImages(t.Context())
		require.NoError(t, err)
		assert.Len(t, f.node.Calls("ListImages"), 4, "after each eight of 17 removals")
	})
}

// Each call of a pass ends after CallTimeout.
func TestEachCallHasItsTimeout(t *testing.T) {
	for _, method := range []string{"ListImages", "ImagesInUse", "ImageFS", "RemoveImage"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, nil, images(1)...)
				f.node.Fill(99 * gib)
				f.node.Hook = func(ctx context.Context, c imagegctest.Call) error {
					if c.Method == method {
						<-ctx.Done()
						return ctx.Err()
					}
					return nil
				}
				began := time.Now()
				_, err := f.gc.GarbageCollect(t.Context())
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, imagegc.CallTimeout, time.Since(began))
			})
		})
	}
}

// slowStore loads as one of its functions says, the last one again and again.
type slowStore struct {
	loads []func(context.Context) error
	asked []time.Time
}

func (s *slowStore) Load(ctx context.Context) ([]imagegc.Record, error) {
	s.asked = append(s.asked, time.Now())
	return nil, s.loads[min(len(s.asked), len(s.loads))-1](ctx)
}

func (s *slowStore) Save(context.Context, []imagegc.Record) error { return nil }

// Records that could not be read in time are read by the next pass. Records that came late are used.
func TestSlowStore(t *testing.T) {
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	late := func(context.Context) error { time.Sleep(2 * imagegc.CallTimeout); return nil }
	fails := func(context.Context) error { return errors.New("away") }
	well := func(context.Context) error { return nil }
	for name, tc := range map[string]struct {
		loads []func(context.Context) error
		errs  []bool // of three passes
		asked int
		took  time.Duration
		cause string
	}{
		"hangs once": {[]func(context.Context) error{hangs, well}, []bool{true, false, false}, 2, imagegc.CallTimeout, "deadline exceeded"},
		"is late":    {[]func(context.Context) error{late}, []bool{false, false, false}, 1, 2 * imagegc.CallTimeout, ""},
		"fails":      {[]func(context.Context) error{fails}, []bool{true, false, false}, 1, 0, "away"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &slowStore{loads: tc.loads}
				f := newFixture(t, func(o *imagegc.Options) { o.Store = store }, images(1)...)
				began := time.Now()
				for _, failed := range tc.errs {
					_, err := f.gc.GarbageCollect(t.Context())
					_, isStore := errors.AsType[*imagegc.StoreError](err)
					assert.Equal(t, failed, isStore, "%v", err)
					if failed {
						assert.ErrorContains(t, err, "load image records: ")
						assert.ErrorContains(t, err, tc.cause)
					}
				}
				assert.Len(t, store.asked, tc.asked)
				assert.Equal(t, tc.took, time.Since(began))
			})
		})
	}
}

// failingWanted cannot say what pods wait for.
type failingWanted struct{ *imagegctest.Node }

func (failingWanted) ImagesWanted(context.Context) ([]string, error) { return nil, errors.New("away") }

// While it is unknown which images pods wait for, nothing is removed.
func TestUnknownWantedImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *imagegc.Options) { o.InUse = failingWanted{o.InUse.(*imagegctest.Node)} }, images(3)...)
		_, err := f.gc.DeleteUnusedImages(t.Context())
		require.EqualError(t, err, "list wanted images: away")
		assert.Len(t, f.node.Tags(), 3)
	})
}

// Run logs a failed list once, and again after the lists have been well.
func TestFailedListsAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		f := newFixture(t, func(o *imagegc.Options) { o.Logger, o.Policy.HighPercent = zap.New(core), 100 }, images(1)...)
		began := time.Now()
		f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
			if at := time.Since(began); c.Method == "ListImages" && (at < 70*time.Second && at > 0 || at > 3*time.Minute) {
				return errors.New("away")
			}
			return nil
		}
		f.runFor(4 * time.Minute)
		assert.Equal(t, 2, logs.FilterMessage("Cannot refresh the list of images").Len())
		assert.Len(t, logs.All(), 2)
	})
}

// Run detects images every five minutes also if it collects rarely, and logs only passes that removed
// images.
func TestRunBetweenCollections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		passes := 0
		f := newFixture(t, func(o *imagegc.Options) {
			o.Logger, o.Interval, o.OnPass = zap.New(core), time.Hour, func(imagegc.Result, error) { passes++ }
		}, images(1)...)
		f.node.Run("c", "r.example/i00:1")
		f.node.Fill(85 * gib)
		done := make(chan struct{})
		go func() {
			defer close(done)
			time.Sleep(70 * time.Minute)
			f.node.Stop("c")
		}()
		f.runFor(3*time.Hour - time.Second)
		<-done
		assert.Len(t, f.node.Calls("ImagesInUse"), 36, "every five minutes")
		assert.Equal(t, 3, passes, "every hour")
		removed := logs.FilterMessage("Removed images").All()
		require.Len(t, removed, 1)
		assert.EqualValues(t, 1, removed[0].ContextMap()["images"])
		assert.Equal(t, 0, len(slices.DeleteFunc(logs.All(), func(e observer.LoggedEntry) bool {
			return e.Message == "Removed images" || e.Message == "Image garbage collection failed"
		})))
	})
}

// Run without thresholds logs nothing while all is well.
func TestQuietDetectionIsNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.DebugLevel)
		f := newFixture(t, func(o *imagegc.Options) { o.Logger, o.Policy.HighPercent = zap.New(core), 100 }, images(1)...)
		f.runFor(14 * time.Minute)
		assert.Empty(t, logs.All())
	})
}
