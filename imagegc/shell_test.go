// SPDX-License-Identifier: Apache-2.0

package imagegc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/imagegc/imagegctest"
	"github.com/keelson-dev/keelson/internal/contexttest"
)

// A caller's context may live as long as the program: no call leaves anything behind at it.
func TestCallsLeaveNothingAtTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := contexttest.New(t.Context())
		f := newFixture(t, func(o *imagegc.Options) { o.Store = &memory{} }, images(20)...)
		f.node.Fill(75 * gib)
		for range 2 {
			_, err := f.gc.GarbageCollect(ctx)
			require.NoError(t, err)
			require.NoError(t, f.gc.Detect(ctx))
			require.NoError(t, f.gc.RefreshImageList(ctx))
			lease, err := f.gc.Hold(ctx, "r.example/i00:1")
			require.NoError(t, err)
			lease.Release()
			_, err = f.gc.Plan(ctx, imagegc.GoalUnused)
			require.NoError(t, err)
			_, err = f.gc.DeleteUnusedImages(ctx)
			require.NoError(t, err)
			f.node.Add(images(20)...)
		}
		assert.Zero(t, ctx.Waiting())
	})
}

// A removal that frees nothing is tried eight times after the sizes add up to the wanted bytes.
func TestPatienceIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		for i := range 20 {
			tag := fmt.Sprintf("r.example/i%02d:1", i)
			f.node.Add(imagegctest.Image{Tags: []string{tag}, Layers: map[string]uint64{tag: 50 * gib}})
		}
		f.node.Lie(imagegctest.Lies{Disk: func(uint64, uint64) (uint64, uint64) { return 100 * gib, 10 * gib }})
		result, err := f.gc.GarbageCollect(t.Context())
		require.Error(t, err)
		assert.Len(t, result.Removed, 8)
		assert.Len(t, f.node.Calls("ImageFS"), 9)
	})
}

// Without a measurement at the start and at the end, the freed bytes are the sizes of the removed images.
func TestFreedWithoutAMeasurement(t *testing.T) {
	for name, tc := range map[string]struct {
		fails func(measurement int) bool
		usage int
		want  uint64
	}{
		"none":            {func(int) bool { return true }, 0, 5 * gib},
		"none at first":   {func(n int) bool { return n == 1 }, 10, 5 * gib},
		"none at last":    {func(n int) bool { return n == 6 }, 0, 5 * gib},
		"none on the way": {func(n int) bool { return n == 3 }, 10, 50 * gib},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, nil, images(5)...)
				n := 0
				f.node.Lie(imagegctest.Lies{Disk: func(uint64, uint64) (uint64, uint64) {
					if n++; tc.fails(n) {
						return 0, 0
					}
					return 100 * gib, min(90, 30+10*uint64(n)) * gib // other programs free space, too
				}})
				result, err := f.gc.DeleteUnusedImages(t.Context())
				require.NoError(t, err)
				assert.Equal(t, tc.want, result.Freed)
				assert.Equal(t, tc.usage, result.UsagePercent)
			})
		})
	}
}

// A pass by the threshold that lost the disk frees the sizes of the removed images, too. The error says
// what was tried.
func TestDiskLostDuringAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, images(20)...)
		f.node.Fill(70 * gib)
		f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
			if c.Method == "ImageFS" && len(f.node.Calls("ImageFS")) > 3 {
				return errors.New("away")
			}
			return nil
		}
		result, err := f.gc.GarbageCollect(t.Context())
		require.EqualError(t, err, "measure image file system: away")
		assert.Len(t, result.Removed, 3)
		assert.EqualValues(t, 3*gib, result.Freed)
	})
}

// After a removal with an effect on the disk, eight removals without an effect are tried again.
func TestPatienceBeginsAnewWithEachEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		for i := range 20 {
			tag := fmt.Sprintf("r.example/i%02d:1", i)
			f.node.Add(imagegctest.Image{Tags: []string{tag}, Layers: map[string]uint64{tag: 50 * gib}})
		}
		n := 0
		f.node.Lie(imagegctest.Lies{Disk: func(uint64, uint64) (uint64, uint64) {
			n++
			return 100 * gib, uint64(min(10+n, 14)) * gib
		}})
		result, err := f.gc.GarbageCollect(t.Context())
		require.Error(t, err)
		assert.Len(t, result.Removed, 3+8)
	})
}

// Images that are too young on a full disk: the next pass is due when the first of them is old
// enough, whatever the order of their names. A time after the next interval changes nothing.
func TestRetryWhenTheFirstImageIsOldEnough(t *testing.T) {
	for minAge, want := range map[time.Duration][]time.Duration{
		4 * time.Minute:  {0, 150 * time.Second, 180 * time.Second, 210 * time.Second},
		20 * time.Minute: {0, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20*time.Minute - 90*time.Second},
	} {
		t.Run(minAge.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var at []time.Duration
				var began time.Time
				f := newFixture(t, func(o *imagegc.Options) {
					o.Policy.MinAge = minAge
					o.OnPass = func(r imagegc.Result, _ error) { at = append(at, r.Started.Sub(began)) }
				})
				for _, tag := range []string{"r.example/m:1", "r.example/a:1", "r.example/z:1"} {
					f.node.Add(image(tag))
					require.NoError(t, f.gc.Detect(t.Context()))
					time.Sleep(30 * time.Second)
				}
				f.node.Fill(90 * gib)
				began = time.Now()
				f.runFor(want[len(want)-1])
				assert.Equal(t, want, at[:min(len(at), len(want))])
			})
		})
	}
}

// Every lease counts in a plan, which names the reference.
func TestPlanNamesTheLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, images(4)...)
		for i := range 3 {
			defer f.hold(fmt.Sprintf("r.example/i%02d:1", i)).Release()
		}
		plan, err := f.gc.Plan(t.Context(), imagegc.GoalUnused)
		require.NoError(t, err)
		require.Len(t, plan.Keep, 3)
		for i, kept := range plan.Keep {
			assert.Equal(t, imagegc.KeepHeld, kept.Reason)
			assert.Equal(t, fmt.Sprintf("r.example/i%02d:1", i), kept.Detail)
		}
		assert.Len(t, plan.Remove, 1)
	})
}

// While a held reference matches no image, the images are listed again after each removal: the pull
// under way may turn out to be of a listed image.
func TestOpenLeaseMakesTheBatchesSmall(t *testing.T) {
	for held, want := range map[string]int{"r.example/i00:1": 3, "r.example/being-pulled:1": 17, "being-pulled": 17} {
		t.Run(held, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, nil, images(17)...)
				defer f.hold(held, "r.example/i00:1").Release()
				result, err := f.gc.DeleteUnusedImages(t.Context())
				require.NoError(t, err)
				assert.Len(t, result.Removed, 16)
				assert.Len(t, f.node.Calls("ListImages"), want)
			})
		})
	}
}

// A failed detection is logged, and sends no event. A dry run sends no event either.
func TestFailuresOfRunAreLogged(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*imagegc.Options)
		want string
	}{
		"without thresholds": {func(o *imagegc.Options) { o.Policy.HighPercent = 100 }, "Cannot detect images"},
		"dry run":            {func(o *imagegc.Options) { o.DryRun = true }, "Image garbage collection failed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.InfoLevel)
				f := newFixture(t, func(o *imagegc.Options) {
					o.Logger = zap.New(core)
					o.Events = imagegc.EventFunc(func(_, reason, _ string) { t.Error(reason) })
					tc.edit(o)
				}, images(3)...)
				f.node.Hook = func(ctx context.Context, c imagegctest.Call) error {
					if c.Method == "ImagesInUse" {
						return errors.New("away")
					}
					return nil
				}
				f.runFor(14 * time.Minute)
				assert.Equal(t, 3, logs.FilterMessage(tc.want).Len())
				assert.Len(t, logs.All(), 3)
			})
		})
	}
}

// An image without an ID is told to the operator, and is no obstacle.
func TestImageWithoutAnIDIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		f := newFixture(t, func(o *imagegc.Options) {
			o.Events = imagegc.EventFunc(func(kind, reason, message string) { events = append(events, kind+" "+reason+" "+message) })
		}, images(2)...)
		f.node.Lie(imagegctest.Lies{List: func(l []imagegc.Image) []imagegc.Image {
			return append(l, imagegc.Image{RepoTags: []string{"x:1"}})
		}})
		_, err := f.gc.DeleteUnusedImages(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"Warning InvalidImageID The runtime reports an image without an ID: x:1"}, events)
	})
}

// Only a pass by the threshold that has measured the disk says that it freed too little.
func TestShortageIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, images(3)...)
		f.node.Fill(95 * gib)
		away := errors.New("away")
		f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
			if c.Method == "ImageFS" && len(f.node.Calls("ImageFS")) > 1 {
				return away
			}
			return nil
		}
		_, err := f.gc.GarbageCollect(t.Context())
		require.ErrorIs(t, err, away)
		_, ok := errors.AsType[*imagegc.NotEnoughError](err)
		assert.False(t, ok)
	})
}

// A dry run saves no records, whoever detects the images.
func TestDryRunSavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		f := newFixture(t, func(o *imagegc.Options) { o.Store, o.DryRun = store, true }, images(2)...)
		require.NoError(t, f.gc.Detect(t.Context()))
		f.collect()
		assert.Zero(t, store.saves)
	})
}

// The end of Run is no failure, although it ends a call.
func TestEndOfRunIsNotLogged(t *testing.T) {
	for _, high := range []int{100, 85} { // without collections, and with
		synctest.Test(t, func(t *testing.T) {
			core, logs := observer.New(zap.InfoLevel)
			f := newFixture(t, func(o *imagegc.Options) {
				o.Logger, o.Policy.HighPercent = zap.New(core), high
			}, images(2)...)
			f.node.Hook = func(ctx context.Context, _ imagegctest.Call) error { <-ctx.Done(); return ctx.Err() }
			f.runFor(time.Second)
			assert.Empty(t, logs.All())
		})
	}
}
