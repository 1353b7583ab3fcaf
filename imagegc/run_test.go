// SPDX-License-Identifier: Apache-2.0

package imagegc_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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

// runFor runs f's collector for the duration d.
func (f *fixture) runFor(d time.Duration) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan error)
	go func() { ended <- f.gc.Run(ctx) }()
	time.Sleep(d)
	synctest.Wait()
	cancel()
	require.NoError(f, <-ended)
}

func TestRunCollectsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		f := newFixture(t, func(o *imagegc.Options) {
			o.OnPass = func(r imagegc.Result, err error) {
				assert.NoError(t, err)
				at = append(at, r.Started.Sub(began))
			}
		}, images(3)...)
		f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
			if c.Method == "ImageFS" {
				time.Sleep(time.Second)
			}
			return nil
		}
		f.runFor(11 * time.Minute)
		assert.Equal(t, []time.Duration{0, 5*time.Minute + time.Second, 10*time.Minute + 2*time.Second}, at)
		require.ErrorIs(t, f.gc.Run(t.Context()), imagegc.ErrAlreadyRun)
	})
}

// TestIdleHour counts the calls in an hour without a change: only those of the intervals.
func TestIdleHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, images(3)...)
		f.runFor(time.Hour - time.Second)
		assert.Len(t, f.node.Calls("ImageFS"), 12)
		assert.Len(t, f.node.Calls("ImagesInUse"), 12, "each collection detects images")
		assert.Len(t, f.node.Calls("ListImages"), 120+12)
		assert.Empty(t, f.node.Calls("RemoveImage"))
	})
}

func TestRunWithoutThresholdsOnlyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *imagegc.Options) {
			o.Policy.HighPercent = 100
			o.OnPass = func(imagegc.Result, error) { t.Error("a pass") }
		}, images(3)...)
		f.node.Fill(97 * gib)
		f.runFor(time.Hour - time.Second)
		assert.Len(t, f.node.Calls("ImagesInUse"), 12)
		assert.Len(t, f.node.Tags(), 3)
	})
}

// Images too young for a pass are removed as soon as they are old enough.
func TestRunComesBackWhenImagesAreOldEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *imagegc.Options) { o.Policy.MinAge = 2 * time.Minute }, images(20)...)
		f.node.Fill(70 * gib)
		began := time.Now()
		var gone time.Duration
		f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
			if c.Method == "RemoveImage" {
				gone = time.Since(began)
			}
			return nil
		}
		f.runFor(4 * time.Minute)
		assert.Len(t, f.node.Tags(), 10)
		assert.Equal(t, 2*time.Minute, gone)
	})
}

func TestFirstFailureIsNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events atomic.Int32
		core, logs := observer.New(zap.InfoLevel)
		f := newFixture(t, func(o *imagegc.Options) {
			o.Events = imagegc.EventFunc(func(_, reason, _ string) {
				assert.Equal(t, imagegc.EventImageGCFailed, reason)
				events.Add(1)
			})
			o.Logger = zap.New(core)
		}, images(3)...)
		var mu sync.Mutex
		away := errors.New("away")
		f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
			mu.Lock()
			defer mu.Unlock()
			if c.Method == "ImagesInUse" {
				return away
			}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.gc.Run(ctx) }()
		synctest.Wait()
		assert.Zero(t, events.Load())
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		assert.EqualValues(t, 2, events.Load())
		mu.Lock()
		away = nil
		mu.Unlock()
		time.Sleep(5 * time.Minute)
		mu.Lock()
		away = errors.New("again")
		mu.Unlock()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		assert.EqualValues(t, 2, events.Load(), "the count began anew")
		cancel()
		require.NoError(t, <-ended)
		assert.Equal(t, 4, logs.FilterMessage("Image garbage collection failed").Len())
	})
}

func TestImageListIsCachedAndSorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		f := newFixture(t, func(o *imagegc.Options) { o.Logger = zap.New(core) }, images(3)...)
		f.node.Add(imagegctest.Image{Tags: []string{"r.example/big:1"}, Layers: map[string]uint64{"big": 7 * gib}})
		assert.Nil(t, f.gc.GetImageList())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.gc.Run(ctx) }()
		synctest.Wait()
		list := f.gc.GetImageList()
		require.Len(t, list, 4)
		assert.Equal(t, "r.example/big:1", list[0].Name())
		assert.Greater(t, list[1].ID, list[2].ID)
		assert.Greater(t, list[2].ID, list[3].ID)

		f.node.Add(image("r.example/new:1"))
		assert.Len(t, f.gc.GetImageList(), 4)
		require.NoError(t, f.gc.RefreshImageList(t.Context()))
		assert.Len(t, f.gc.GetImageList(), 5)
		f.node.Add(image("r.example/newer:1"))
		time.Sleep(30 * time.Second)
		synctest.Wait()
		assert.Len(t, f.gc.GetImageList(), 6)
		assert.Len(t, list, 4, "what was handed out stays as it was")
		cancel()
		require.NoError(t, <-ended)

		f.node.Hook = func(context.Context, imagegctest.Call) error { return errors.New("away") }
		require.Error(t, f.gc.RefreshImageList(t.Context()))
		assert.Len(t, f.gc.GetImageList(), 6, "old is better than none")
		assert.Zero(t, logs.FilterLevelExact(zap.WarnLevel).Len())
	})
}

func TestDryRunLogsWhatItWouldDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		f := newFixture(t, func(o *imagegc.Options) { o.DryRun, o.Logger = true, zap.New(core) }, images(3)...)
		f.node.Fill(90 * gib)
		f.runFor(time.Minute)
		assert.Equal(t, 3, logs.FilterMessage("Would remove image").Len())
		assert.Len(t, f.node.Tags(), 3)
	})
}
