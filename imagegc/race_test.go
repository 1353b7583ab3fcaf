// SPDX-License-Identifier: Apache-2.0

package imagegc_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/imagegc/imagegctest"
	"github.com/keelson-dev/keelson/internal/casetest"
)

// starter starts and ends pods on a node like an agent: check for the image, pull if absent,
// create, later remove.
type starter struct {
	node   *imagegctest.Node
	tags   []string
	failed atomic.Int32 // pod starts failed for want of an image
	pulled atomic.Int32
	doubts atomic.Int32 // passes with ErrImplausibleList
	// hold is called before the check for the image. It returns a func to report the image ID to,
	// and a func to call after the container was created.
	hold func(ctx context.Context, tag string) (resolved func(id string) bool, release func())
}

// run starts pods in turn until ctx ends.
func (s *starter) run(ctx context.Context, name string, r *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		pod := fmt.Sprint(name, "-", n)
		if err := s.start(ctx, pod, s.tags[r.IntN(len(s.tags))]); errors.Is(err, imagegctest.ErrNoImage) {
			s.failed.Add(1)
		}
		pause(ctx, time.Duration(r.IntN(500))*time.Millisecond)
		s.node.Stop(pod)
		pause(ctx, time.Duration(r.IntN(500))*time.Millisecond)
	}
}

func (s *starter) start(ctx context.Context, pod, tag string) error {
	resolved, release := s.hold(ctx, tag)
	defer release()
	id, err := s.node.Status(ctx, tag)
	for err == nil && (id == "" || !resolved(id)) {
		s.pulled.Add(1)
		id, err = s.node.Pull(ctx, tag)
	}
	if err != nil {
		return err
	}
	return s.node.Create(ctx, pod, id) // by ID, as a backend does
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// race lets pods start and pull during continuous collections for a virtual minute, and returns the
// starter.
func race(t *testing.T, seed uint64, hold func(*imagegc.Collector) func(context.Context, string) (func(string) bool, func())) *starter {
	t.Helper()
	node := imagegctest.New(20 * gib)
	gc, err := imagegc.New(imagegc.Options{
		Images: node, InUse: node, Disk: node, Policy: imagegc.Policy{MinAge: -1, HighPercent: 20, LowPercent: 5},
	})
	require.NoError(t, err)
	s := &starter{node: node, hold: hold(gc)}
	for i := range 8 {
		// Two tags of each, so that an image may come and go under another name.
		app := image(fmt.Sprintf("r.example/i%d:1", i), fmt.Sprintf("mirror.example/i%d:1", i))
		node.Publish(app)
		s.tags = append(s.tags, app.Tags...)
	}
	var mu sync.Mutex
	delays := rand.New(rand.NewPCG(seed, 0))
	node.Hook = func(ctx context.Context, c imagegctest.Call) error {
		mu.Lock()
		delay := time.Duration(delays.IntN(20)) * time.Millisecond
		mu.Unlock()
		pause(ctx, delay)
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() { s.run(ctx, fmt.Sprint("pod", i), rand.New(rand.NewPCG(seed, uint64(i)+1))) })
	}
	for i := range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				collect := gc.GarbageCollect
				if i == 1 {
					collect = gc.DeleteUnusedImages
				}
				_, err := collect(ctx)
				shortage, full := errors.AsType[*imagegc.NotEnoughError](err)
				switch {
				case full:
					assert.False(t, shortage.Stalled)
				case errors.Is(err, imagegc.ErrImplausibleList):
					s.doubts.Add(1)
				case ctx.Err() == nil:
					assert.NoError(t, err)
				}
				pause(ctx, 50*time.Millisecond)
			}
		})
	}
	wg.Wait()
	assert.Greater(t, s.pulled.Load(), int32(100), "images must come and go")
	return s
}

// The kubelet removed an image between its check for the image and the creation of the container
// (kubernetes#123631, #18140).
func TestUpstream123631PodsKeepTheImagesTheyWereToldOf(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			s := race(t, seed, func(gc *imagegc.Collector) func(context.Context, string) (func(string) bool, func()) {
				return func(ctx context.Context, tag string) (func(string) bool, func()) {
					lease, err := gc.Hold(ctx, tag)
					if err != nil {
						return func(string) bool { return true }, func() {}
					}
					return func(id string) bool {
						present, err := lease.Resolved(ctx, id)
						return present || err != nil
					}, lease.Release
				}
			})
			assert.Zero(t, s.failed.Load())
			assert.Zero(t, s.doubts.Load())
			assert.Empty(t, s.node.Violations())
		})
	}
}

// TestRaceIsSeen shows that the preceding test can fail: without leases it does.
func TestRaceIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := race(t, 1, func(*imagegc.Collector) func(context.Context, string) (func(string) bool, func()) {
			return func(context.Context, string) (func(string) bool, func()) {
				return func(string) bool { return true }, func() {}
			}
		})
		assert.Positive(t, int(s.failed.Load())+len(s.node.Violations()))
	})
}

// On random nodes, no image that must stay is removed, and no image is removed needlessly.
func TestPassesOnRandomNodes(t *testing.T) {
	removed := 0
	for seed := range casetest.Rounds[uint64](1_000) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(6, seed))
			node := imagegctest.New(1000)
			policy := imagegc.Policy{MinAge: -1, HighPercent: 50 + r.IntN(40), Protected: []string{"keep.example/*"}}
			policy.LowPercent = policy.HighPercent - r.IntN(20)
			if r.IntN(3) == 0 {
				policy.MaxAge = time.Hour
			}
			gc, err := imagegc.New(imagegc.Options{Images: node, InUse: node, Disk: node, Policy: policy})
			require.NoError(t, err)
			var stay []string
			for i := range 3 + r.IntN(30) {
				tag := fmt.Sprintf("r.example/i%02d:1", i)
				kind := r.IntN(6)
				if kind == 0 {
					tag = fmt.Sprintf("keep.example/i%02d:1", i)
				}
				base := r.IntN(4)
				node.Add(imagegctest.Image{Tags: []string{tag}, Pinned: kind == 1, Layers: map[string]uint64{
					tag: uint64(r.IntN(50)), fmt.Sprint("base", base): uint64(base * 30),
				}})
				switch kind {
				case 2:
					node.Run(fmt.Sprint("c", i), tag)
				case 3:
					lease, err := gc.Hold(t.Context(), tag)
					require.NoError(t, err)
					defer lease.Release()
				}
				if kind < 4 {
					stay = append(stay, tag)
				}
				if r.IntN(4) == 0 {
					time.Sleep(time.Duration(r.IntN(40)) * time.Minute)
					require.NoError(t, gc.Detect(t.Context()))
				}
			}
			node.Fill(uint64(r.IntN(900)))
			left := func() int {
				capacity, available, err := node.ImageFS(t.Context())
				require.NoError(t, err)
				return int(available * 100 / capacity)
			}
			target := 100 - policy.LowPercent
			before := left()
			node.Hook = func(_ context.Context, c imagegctest.Call) error {
				if c.Method == "RemoveImage" && policy.MaxAge == 0 {
					assert.Less(t, left(), target, "seed %d: it was enough", seed)
					assert.LessOrEqual(t, before, 100-policy.HighPercent, "seed %d: it was not full", seed)
				}
				return nil
			}
			result, err := gc.GarbageCollect(t.Context())
			_, shortage := errors.AsType[*imagegc.NotEnoughError](err)
			require.True(t, err == nil || shortage, "seed %d: %v", seed, err)
			assert.Empty(t, node.Violations())
			assert.Subset(t, node.Tags(), stay, "seed %d", seed)
			if before <= 100-policy.HighPercent {
				assert.Equal(t, shortage, left() < target, "seed %d", seed)
			}
			removed += len(result.Removed)
		})
	}
	assert.Greater(t, removed, casetest.Rounds(3_000))
}
