// SPDX-License-Identifier: Apache-2.0

package statfs_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// TestFullDiskGetsBelowTheThreshold fills containerd's disk with images and collects down to the
// wanted space without removing a needed image.
func TestFullDiskGetsBelowTheThreshold(t *testing.T) {
	n := newNode(t, 320, 14, 8)
	ctx := t.Context()
	gc, err := imagegc.New(imagegc.Options{Images: n, InUse: n, Disk: n, Policy: imagegc.Policy{
		HighPercent: 75, LowPercent: 55, MinAge: -1,
		Protected: []string{containerdtest.PauseImage, containerdtest.BusyboxImage, n.Host + "/app3"},
	}})
	require.NoError(t, err)

	pod := n.sandbox(t, "web")
	var ids []string
	for i := 0; n.usagePercent(t) < 75; i++ {
		require.Less(t, i, 14, "the disk does not get full")
		id, err := n.pull(ctx, n.Ref(fmt.Sprintf("app%d:1", i)))
		require.NoError(t, err)
		ids = append(ids, id)
		switch i {
		case 0: // runs
			c, err := pod.create(ctx, "running", n.Ref("app0:1"))
			require.NoError(t, err)
			require.NoError(t, pod.start(ctx, c))
		case 1: // never ran
			_, err := pod.create(ctx, "created", id)
			require.NoError(t, err)
		case 4:
			_, err := n.Ctr(ctx, "images", "label", n.Ref("app4:1"), "io.cri-containerd.pinned=pinned")
			require.NoError(t, err)
		}
		require.NoError(t, gc.Detect(ctx)) // the order of pulls determines the ages
	}
	lease, err := gc.Hold(ctx, n.Ref("app2:1"))
	require.NoError(t, err)
	defer lease.Release()
	needed := ids[:4]
	if list, err := n.ListImages(ctx); assert.NoError(t, err) && slices.ContainsFunc(list, func(i imagegc.Image) bool { return i.Pinned && i.ID == ids[4] }) {
		needed = ids[:5]
	} else {
		t.Logf("containerd %s tells of no pins", n.Version)
	}

	plan, err := gc.Plan(ctx, imagegc.GoalThreshold)
	require.NoError(t, err)
	t.Logf("%d images:\n%s", len(ids), strings.ReplaceAll(plan.String(), n.Host, "registry"))
	before := n.usagePercent(t)
	result, err := gc.GarbageCollect(ctx)
	require.NoError(t, err)
	after := n.usagePercent(t)
	t.Logf("from %d %% to %d %%, %d images removed, %d MiB freed, by their sizes %d MiB",
		before, after, len(result.Removed), result.Freed>>20, result.Sizes>>20)

	assert.LessOrEqual(t, after, 55)
	assert.Equal(t, after, result.UsagePercent)
	assert.Greater(t, after, 55-10, "no image more than it took")
	require.NotEmpty(t, result.Removed)
	left, err := n.ListImages(ctx)
	require.NoError(t, err)
	var present []string
	for _, i := range left {
		present = append(present, i.ID)
	}
	assert.Subset(t, present, needed)
	assert.Len(t, present, 2+len(ids)-len(result.Removed), "with pause and busybox")
	for i, removed := range result.Removed {
		assert.Equal(t, ids[len(needed)+i], removed.Image.ID, "the longest idle first")
	}

	// All removable images are gone, and containers still start from the remaining images.
	_, err = gc.DeleteUnusedImages(ctx)
	require.NoError(t, err)
	left, err = n.ListImages(ctx)
	require.NoError(t, err)
	assert.Len(t, left, 2+len(needed))
	for i, id := range needed {
		c, err := pod.create(ctx, fmt.Sprint("again", i), id)
		require.NoError(t, err)
		require.NoError(t, pod.start(ctx, c))
	}
	another := n.sandbox(t, "needs-pause")
	_, err = another.create(ctx, "main", needed[2])
	require.NoError(t, err)
}

// TestNoPodLosesItsImage lets pods check, pull and start while unneeded images are removed again
// and again. No pod may fail because its image was removed between the check and the creation of
// its container.
func TestNoPodLosesItsImage(t *testing.T) {
	const workers, images = 3, 4
	rounds := 10
	if os.Getenv("KEELSON_E2E") == "1" {
		rounds = 100
	}
	n := newNode(t, 400, images, 1)
	gc, err := imagegc.New(imagegc.Options{Images: n, InUse: n, Disk: n, Policy: imagegc.Policy{
		HighPercent: 2, LowPercent: 1, MinAge: -1, Protected: []string{containerdtest.PauseImage},
	}})
	require.NoError(t, err)

	var pulls, kept atomic.Int32
	start := func(ctx context.Context, s *sandbox, name, reference string) (string, error) {
		lease, err := gc.Hold(ctx, reference)
		if err != nil {
			return "", err
		}
		defer lease.Release()
		id, err := n.imageID(ctx, reference)
		for err == nil {
			present := false
			if id != "" {
				if present, err = lease.Resolved(ctx, id); present || err != nil {
					break
				}
			}
			pulls.Add(1)
			id, err = n.pull(ctx, reference)
		}
		if err != nil {
			return "", fmt.Errorf("image %s: %w", reference, err)
		}
		return s.create(ctx, name, id)
	}

	ctx, stop := context.WithCancel(t.Context())
	var collector, pods sync.WaitGroup
	removed := 0
	collector.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for pass := 0; ctx.Err() == nil; pass++ {
			collect := gc.DeleteUnusedImages
			if pass%2 == 1 {
				collect = gc.GarbageCollect
			}
			<-tick.C
			result, err := collect(ctx)
			if _, full := errors.AsType[*imagegc.NotEnoughError](err); !full && ctx.Err() == nil {
				assert.NoError(t, err)
			}
			removed += len(result.Removed)
			for _, k := range result.Kept {
				if k.Reason == imagegc.KeepInUse || k.Reason == imagegc.KeepHeld {
					kept.Add(1)
				}
			}
		}
	})
	for w := range workers {
		s := n.sandbox(t, fmt.Sprint("pod", w))
		pods.Go(func() {
			r := rand.New(rand.NewPCG(6, uint64(w)))
			for i := range rounds {
				reference := n.Ref(fmt.Sprintf("%s%d:1", []string{"app", "twin"}[r.IntN(2)], r.IntN(images)))
				id, err := start(ctx, s, fmt.Sprint("c", i), reference)
				if !assert.NoError(t, err, "pod %d.%d", w, i) {
					continue
				}
				if i%5 == 0 {
					assert.NoError(t, s.start(ctx, id), "pod %d.%d", w, i)
				}
				assert.NoError(t, s.remove(ctx, id))
			}
		})
	}
	pods.Wait()
	stop()
	collector.Wait()
	t.Logf("%d containers, %d pulls, %d images removed, %d times one was needed", workers*rounds, pulls.Load(), removed, kept.Load())
	assert.Greater(t, removed, workers*rounds/4, "images must come and go")
	assert.Greater(t, int(pulls.Load()), workers*rounds/4)
	assert.Positive(t, kept.Load())
}
