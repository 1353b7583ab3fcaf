// SPDX-License-Identifier: Apache-2.0

package imagegc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/imagegc/imagegctest"
)

// images returns n images of 1 GiB: r.example/i00:1 and so on.
func images(n int) (out []imagegctest.Image) {
	for i := range n {
		out = append(out, image(fmt.Sprintf("r.example/i%02d:1", i)))
	}
	return out
}

// names returns the tags of the removed images, in order, without their common parts.
func names(removed []imagegc.Removed) (out []string) {
	for _, r := range removed {
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(r.Image.Name(), "r.example/"), ":1"))
	}
	return out
}

// reasons returns the reasons for kept images by the short names of names.
func reasons(kept []imagegc.Kept) map[string]imagegc.KeepReason {
	out := make(map[string]imagegc.KeepReason)
	for _, k := range kept {
		out[strings.TrimSuffix(strings.TrimPrefix(k.Image.Name(), "r.example/"), ":1")] = k.Reason
	}
	return out
}

func (f *fixture) collect() imagegc.Result {
	f.Helper()
	result, err := f.gc.GarbageCollect(f.Context())
	require.NoError(f, err)
	assert.Empty(f, f.node.Violations())
	return result
}

// aged returns a fixture with n images, used a minute apart, i00 first.
func aged(t *testing.T, n int, edit func(*imagegc.Options)) *fixture {
	t.Helper()
	f := newFixture(t, edit, images(n)...)
	for i := range n {
		f.node.Run("c", fmt.Sprintf("r.example/i%02d:1", i))
		require.NoError(t, f.gc.Detect(t.Context()))
		time.Sleep(time.Minute)
	}
	f.node.Stop("c")
	return f
}

func TestCollectsUntilTheDiskHasWhatIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		f := aged(t, 30, func(o *imagegc.Options) {
			o.OnRemoved = func(r imagegc.Removed) { told = append(told, r.String()) }
		})
		f.node.Fill(56 * gib)
		assert.Equal(t, 86, f.collect().Plan.UsagePercent)
		f.node.Fill(60 * gib) // 84 % together with the remaining images
		result := f.collect()
		assert.Empty(t, result.Removed)
		assert.Equal(t, 84, result.UsagePercent)

		f.node.Fill(70 * gib) // 94 %
		result = f.collect()
		assert.Len(t, result.Removed, 14)
		assert.Equal(t, "i06", names(result.Removed)[0])
		assert.Equal(t, 80, result.UsagePercent)
		assert.Equal(t, uint64(14*gib), result.Freed)
		assert.Equal(t, uint64(14*gib), result.Plan.Wanted)
		assert.Equal(t, imagegc.KeepNotNeeded, reasons(result.Kept)["i29"])
		assert.Len(t, result.Kept, 10)
		assert.Equal(t, "r.example/i00:1 (1.0 GiB, space)", told[0])
		assert.Len(t, told, 20)
	})
}

// Sizes count shared layers for every image, so that the sum of sizes reaches the goal too early.
// The kubelet then waits for the next round, five minutes later (kubernetes#68203, #92925,
// #120659).
func TestUpstream68203SharedLayersAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		for i := range 20 {
			tag := fmt.Sprintf("r.example/i%02d:1", i)
			f.node.Add(imagegctest.Image{Tags: []string{tag}, Layers: map[string]uint64{"base": 9 * gib, tag: gib}})
		}
		require.NoError(t, f.gc.Detect(t.Context()))
		f.node.Fill(61 * gib) // 90 %
		result := f.collect()
		assert.Len(t, result.Removed, 10)
		assert.Len(t, result.Plan.Remove, 1, "as far as sizes say")
		assert.Equal(t, 80, result.UsagePercent)
	})
}

// The sizes of containerd are of the download; images take more on the disk. No image is removed
// needlessly.
func TestUpstream68203SizesThatAreTooSmallRemoveNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, images(30)...)
		f.node.Lie(imagegctest.Lies{List: func(list []imagegc.Image) []imagegc.Image {
			for i := range list {
				list[i].Size /= 100
			}
			return list
		}})
		f.node.Fill(57 * gib) // 87 %
		assert.Len(t, f.collect().Removed, 7)
	})
}

// If the disk does not reflect removals, the pass stops before all images are removed
// (kubernetes#116020).
func TestUpstream116020DiskThatShowsNothingStopsThePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, images(60)...)
		f.node.Lie(imagegctest.Lies{Disk: func(uint64, uint64) (uint64, uint64) { return 100 * gib, 10 * gib }})
		result, err := f.gc.GarbageCollect(t.Context())
		shortage, ok := errors.AsType[*imagegc.NotEnoughError](err)
		require.True(t, ok)
		assert.True(t, shortage.Stalled)
		assert.Equal(t, uint64(10*gib), shortage.Wanted)
		assert.Zero(t, shortage.Freed)
		assert.ErrorContains(t, err, "is it the file system that images are on?")
		assert.Len(t, result.Removed, 10, "what sizes say, and no more")
	})
}

func TestUpstream71869MessageSaysWhatIsTheMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		f := newFixture(t, func(o *imagegc.Options) {
			o.Events = imagegc.EventFunc(func(kind, reason, message string) { events = append(events, kind+" "+reason+" "+message) })
		}, images(5)...)
		f.node.Run("c", "r.example/i00:1")
		f.node.Fill(92 * gib)
		result, err := f.gc.GarbageCollect(t.Context())
		text := "the image file system is 93 % full of 100.0 GiB: wanted to free 17.0 GiB by removing images, freed 4.0 GiB, and no other may be removed; " +
			"look for other data on it: logs, volumes, images in use"
		require.EqualError(t, err, text)
		assert.Equal(t, []string{"Warning FreeDiskSpaceFailed " + text}, events)
		assert.Equal(t, map[string]imagegc.KeepReason{"i00": imagegc.KeepInUse}, reasons(result.Kept))
	})
}

// In the kubelet, a failed removal of an image over MaxAge ended the pass before the check of the
// disk.
func TestUpstreamAgeErrorDoesNotKeepSpaceFromBeingFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := aged(t, 30, func(o *imagegc.Options) { o.Policy.MaxAge = 28*time.Minute + time.Second })
		broken := errors.New("device or resource busy")
		f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
			if c.Method == "RemoveImage" && c.Image == image("r.example/i00:1").ID() {
				return broken
			}
			return nil
		}
		f.node.Fill(69 * gib)
		result, err := f.gc.GarbageCollect(t.Context())
		require.ErrorIs(t, err, broken)
		failed, ok := errors.AsType[*imagegc.RemoveError](err)
		require.True(t, ok)
		assert.Equal(t, "r.example/i00:1", failed.Image.Name())
		assert.Equal(t, imagegc.ReasonAge, result.Plan.Remove[0].Reason)
		assert.Len(t, f.node.Calls("RemoveImage"), 20, "each is tried once")
		assert.Equal(t, 80, result.UsagePercent)
		assert.Equal(t, imagegc.KeepFailed, reasons(result.Kept)["i00"])
	})
}

// Once the kubelet was up for longer than MaxAge, it removed a new image before its first use.
func TestUpstreamNeverUsedImageIsNotOverAgeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *imagegc.Options) { o.Policy.MaxAge = 24 * time.Hour }, image("r.example/a:1"))
		f.collect()
		time.Sleep(24 * time.Hour)
		f.node.Add(image("r.example/b:1"))
		f.collect()
		assert.Equal(t, []string{"r.example/a:1", "r.example/b:1"}, f.node.Tags())
		time.Sleep(time.Nanosecond)
		assert.Equal(t, []string{"a"}, names(f.collect().Removed))
		time.Sleep(24 * time.Hour)
		assert.Equal(t, []string{"b"}, names(f.collect().Removed))
	})
}

// The kubelet told its hook only the images with failed removals, so that the pull records of all
// other images were dropped.
func TestUpstreamHookGetsEveryImageThatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last imagegc.Result
		f := newFixture(t, func(o *imagegc.Options) {
			o.Policy.MaxAge, o.Policy.LowPercent = time.Hour, 85
			o.OnPass = func(r imagegc.Result, _ error) { last = r }
		}, images(3)...)
		present := func() (names []string) {
			for _, i := range last.Present {
				names = append(names, i.Name())
			}
			slices.Sort(names)
			return names
		}
		f.node.Add(imagegctest.Image{Tags: []string{"r.example/pinned:1"}, Layers: map[string]uint64{"p": gib}, Pinned: true})
		f.node.Run("c", "r.example/i01:1")
		at := time.Now()
		f.node.Hook = func(context.Context, imagegctest.Call) error { time.Sleep(time.Millisecond); return nil }
		everything := []string{"r.example/i00:1", "r.example/i01:1", "r.example/i02:1", "r.example/pinned:1"}

		f.collect()
		assert.Equal(t, everything, present(), "nothing to do")
		assert.Equal(t, at, last.Started)

		f.node.Fill(82 * gib) // 86 %: needs a removal
		f.collect()
		require.Len(t, f.node.Tags(), 3)
		assert.Equal(t, f.node.Tags(), present(), "those in use, pinned and not needed")

		f.node.Fill(0)
		time.Sleep(2 * time.Hour)
		f.collect()
		assert.Equal(t, []string{"r.example/i01:1", "r.example/pinned:1"}, present(), "for age, too")

		f.node.Lie(imagegctest.Lies{Disk: func(uint64, uint64) (uint64, uint64) { return 0, 0 }})
		_, err := f.gc.GarbageCollect(t.Context())
		require.ErrorIs(t, err, imagegc.ErrInvalidCapacity)
		assert.Len(t, present(), 2, "also if the disk cannot be measured")

		f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
			if c.Method == "ListImages" {
				return errors.New("away")
			}
			return nil
		}
		_, err = f.gc.DeleteUnusedImages(t.Context())
		require.ErrorContains(t, err, "list images: away")
		assert.Nil(t, last.Present, "never a guess")
	})
}

// The kubelet did not match the image of a container that reports only repo@digest
// (kubernetes#81756, #106037).
func TestUpstream106037ContainerKnownByDigestKeepsItsImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, box := image("r.example/app:1"), image("docker.io/library/box:latest")
		f := newFixture(t, nil, app, box, image("r.example/c:1"))
		for _, reported := range [][]string{
			{"mirror.example/app@" + app.Digest(), "box"},
			{"docker-pullable://r.example/app@" + app.Digest(), "docker.io/box"},
			{strings.TrimPrefix(app.ID(), "sha256:"), box.ID()},
		} {
			f.node.Lie(imagegctest.Lies{InUse: func([]string) []string { return reported }})
			assert.Equal(t, []string{"docker.io/library/box:latest", "r.example/app:1"}, f.empty())
		}
	})
}

// Sandboxes are not containers: with a runtime that does not pin it, the pause image was removed
// (kubernetes#103494, #111796).
func TestUpstream103494PauseImageIsProtected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *imagegc.Options) {
			o.Policy.Protected = []string{"registry.k8s.io/pause"}
			o.Policy.MaxAge = time.Minute
		}, image("registry.k8s.io/pause:3.9"), image("r.example/a:1"))
		require.NoError(t, f.gc.Detect(t.Context()))
		time.Sleep(time.Hour)
		f.node.Fill(98 * gib)
		_, err := f.gc.GarbageCollect(t.Context())
		require.Error(t, err)
		assert.Equal(t, []string{"registry.k8s.io/pause:3.9"}, f.node.Tags())
		assert.Equal(t, []string{"registry.k8s.io/pause:3.9"}, f.empty())
	})
}

// Only space available to users other than root counts as free (kubernetes#27996).
func TestUpstream27996ReservedSpaceIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, images(10)...)
		f.node.Lie(imagegctest.Lies{Disk: func(capacity, available uint64) (uint64, uint64) {
			return capacity, available - 76*gib
		}})
		assert.Len(t, f.collect().Removed, 6)
	})
}

func TestPlanAndDryRunRemoveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var passes []imagegc.Result
		dry := newFixture(t, func(o *imagegc.Options) {
			o.DryRun = true
			o.OnPass = func(r imagegc.Result, err error) { passes = append(passes, r); assert.NoError(t, err) }
			o.Events = imagegc.EventFunc(func(_, reason, _ string) { t.Error(reason) })
		}, images(3)...)
		dry.node.Fill(96 * gib)
		result := dry.collect()
		assert.Len(t, result.Plan.Remove, 3)
		assert.True(t, result.DryRun)
		_, err := dry.gc.DeleteUnusedImages(t.Context())
		require.NoError(t, err)
		assert.Len(t, dry.node.Tags(), 3)
		assert.Len(t, passes, 2)

		f := newFixture(t, nil, images(3)...)
		f.node.Run("c", "r.example/i01:1")
		plan, err := f.gc.Plan(t.Context(), imagegc.GoalUnused)
		require.NoError(t, err)
		assert.Len(t, plan.Remove, 2)
		assert.Contains(t, plan.String(), "keep   r.example/i01:1 1.0 GiB: in use as sha256:")
		assert.Len(t, f.node.Tags(), 3)
	})
}
