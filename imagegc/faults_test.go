// SPDX-License-Identifier: Apache-2.0

package imagegc_test

import (
	"context"
	"errors"
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

func TestNewNamesTheBadField(t *testing.T) {
	node := imagegctest.New(1)
	good := imagegc.Options{Images: node, InUse: node, Disk: node}
	for field, edit := range map[string]func(*imagegc.Options){
		"Options.Images is required":             func(o *imagegc.Options) { o.Images = nil },
		"Options.InUse is required":              func(o *imagegc.Options) { o.InUse = nil },
		"Options.Disk is required":               func(o *imagegc.Options) { o.Disk = nil },
		"Options.Interval is negative":           func(o *imagegc.Options) { o.Interval = -1 },
		"Policy.HighPercent is 101":              func(o *imagegc.Options) { o.Policy.HighPercent = 101 },
		"Policy.LowPercent is -1":                func(o *imagegc.Options) { o.Policy.LowPercent = -1 },
		"Policy.LowPercent 80 is above":          func(o *imagegc.Options) { o.Policy.HighPercent, o.Policy.LowPercent = 70, 80 },
		"Policy.MaxAge is negative":              func(o *imagegc.Options) { o.Policy.MaxAge = -1 },
		`Policy.Protected[1] "": it is empty`:    func(o *imagegc.Options) { o.Policy.Protected = []string{"a", ""} },
		`Policy.Protected[0] "a b": references `: func(o *imagegc.Options) { o.Policy.Protected = []string{"a b"} },
	} {
		opts := good
		edit(&opts)
		_, err := imagegc.New(opts)
		require.ErrorContains(t, err, "imagegc: "+field)
	}
	_, err := imagegc.New(good)
	require.NoError(t, err)
	assert.Empty(t, node.Calls("ListImages"))
}

// MinAge and MaxAge count from different times; neither must be the longer (kubernetes#132372).
func TestUpstream132372MaxAgeMayBeShorterThanMinAge(t *testing.T) {
	node := imagegctest.New(1)
	_, err := imagegc.New(imagegc.Options{Images: node, InUse: node, Disk: node, Policy: imagegc.Policy{MinAge: time.Hour, MaxAge: time.Minute}})
	require.NoError(t, err)
}

func TestSeamsThatFailOrLie(t *testing.T) {
	away := errors.New("away")
	fail := func(method string, after int) func(*fixture) {
		return func(f *fixture) {
			f.node.Hook = func(_ context.Context, c imagegctest.Call) error {
				if c.Method == method && len(f.node.Calls(method)) > after {
					return away
				}
				return nil
			}
		}
	}
	lie := func(l imagegctest.Lies) func(*fixture) { return func(f *fixture) { f.node.Lie(l) } }
	tests := []struct {
		name    string
		fault   func(*fixture)
		removed int // by GarbageCollect, of 19 removable images and 10 to remove
		unused  int // by DeleteUnusedImages, of 19
		err     error
		also    error // of DeleteUnusedImages, if different
	}{
		{name: "nothing", fault: func(*fixture) {}, removed: 10, unused: 19},
		{name: "no list", fault: fail("ListImages", 0), err: away},
		{name: "no second list", fault: fail("ListImages", 1), removed: 8, unused: 8, err: away},
		{name: "nobody knows what is in use", fault: fail("ImagesInUse", 0), err: away},
		{name: "nobody knows any more", fault: fail("ImagesInUse", 1), removed: 8, unused: 8, err: away},
		{name: "the disk cannot be measured", fault: fail("ImageFS", 0), unused: 19, err: away, also: errNone},
		{name: "the disk cannot be measured any more", fault: fail("ImageFS", 3), removed: 3, unused: 19, err: away, also: errNone},
		{name: "no image can be removed", fault: fail("RemoveImage", 0), err: away},
		{name: "few images can be removed", fault: fail("RemoveImage", 5), removed: 5, unused: 5, err: away},
		{name: "an unknown image is in use", fault: lie(imagegctest.Lies{InUse: func(u []string) []string { return append(u, "") }}), err: imagegc.ErrUnknownImageInUse},
		{name: "an image that is not there is in use", fault: lie(imagegctest.Lies{InUse: func(u []string) []string { return append(u, "gone:1") }}), removed: 10, unused: 19},
		{name: "an empty list", fault: lie(imagegctest.Lies{List: func([]imagegc.Image) []imagegc.Image { return nil }}), err: imagegc.ErrImplausibleList},
		{name: "every image twice", fault: lie(imagegctest.Lies{List: func(l []imagegc.Image) []imagegc.Image { return append(l, l...) }}), removed: 10, unused: 19},
		{name: "images without ID", fault: lie(imagegctest.Lies{List: func(l []imagegc.Image) []imagegc.Image {
			return append(l, imagegc.Image{RepoTags: []string{"x:1"}}, imagegc.Image{})
		}}), removed: 10, unused: 19},
		{name: "images that are gone", fault: func(f *fixture) {
			was, err := f.node.ListImages(f.Context())
			require.NoError(f, err)
			f.node.Lie(imagegctest.Lies{List: func([]imagegc.Image) []imagegc.Image { return slices.Clone(was) }})
		}, removed: 10, unused: 19},
		{name: "no disk", fault: lie(imagegctest.Lies{Disk: func(uint64, uint64) (uint64, uint64) { return 0, 0 }}), unused: 19, err: imagegc.ErrInvalidCapacity, also: errNone},
		{name: "more available than there is", fault: lie(imagegctest.Lies{Disk: func(c, a uint64) (uint64, uint64) { return c, c + 1 }}), unused: 19},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			pass := func(want int, wantErr error, collect func(*fixture) (imagegc.Result, error)) {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t, nil, images(20)...)
					f.node.Run("c", "r.example/i00:1")
					f.node.Fill(70 * gib)
					tc.fault(f)
					result, err := collect(f)
					if wantErr == nil || errors.Is(wantErr, errNone) {
						require.NoError(t, err)
					} else {
						require.ErrorIs(t, err, wantErr)
					}
					assert.Len(t, result.Removed, want)
					assert.Empty(t, f.node.Violations())
					f.node.Hook = nil
					f.node.Lie(imagegctest.Lies{})
					assert.Len(t, f.node.Tags(), 20-want)
				})
			}
			also := tc.also
			if also == nil {
				also = tc.err
			}
			pass(tc.removed, tc.err, func(f *fixture) (imagegc.Result, error) { return f.gc.GarbageCollect(f.Context()) })
			pass(tc.unused, also, func(f *fixture) (imagegc.Result, error) { return f.gc.DeleteUnusedImages(f.Context()) })
		})
	}
}

// errNone distinguishes an expected nil error from an unset field.
var errNone = errors.New("none")

func TestPassEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("the node shuts down")
		f := newFixture(t, func(o *imagegc.Options) {
			o.OnRemoved = func(imagegc.Removed) { cancel(stop) }
		}, images(20)...)
		f.node.Fill(90 * gib)
		result, err := f.gc.GarbageCollect(ctx)
		require.ErrorIs(t, err, stop)
		assert.Equal(t, 1, strings.Count(err.Error(), stop.Error()), "told once")
		assert.Len(t, result.Removed, 1)
		assert.Nil(t, result.Present)
		_, err = f.gc.GarbageCollect(ctx)
		require.ErrorIs(t, err, stop)
		_, err = f.gc.Plan(ctx, imagegc.GoalUnused)
		require.ErrorIs(t, err, stop)
		require.ErrorIs(t, f.gc.Detect(ctx), stop)
	})
}

// A hanging runtime delays a call by at most CallTimeout. Other calls wait for the turn as long as
// their ctx allows.
func TestCallsThatHangEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, images(2)...)
		f.node.Hook = func(ctx context.Context, c imagegctest.Call) error {
			if c.Method == "RemoveImage" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		before := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, err := f.gc.DeleteUnusedImages(t.Context())
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := f.gc.GarbageCollect(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(before))
		lease := f.hold("r.example/none:1")
		lease.Release()
		require.Equal(t, time.Second, time.Since(before), "leases do not wait for passes")
		<-ended
		assert.Equal(t, 2*imagegc.CallTimeout, time.Since(before))
	})
}

// memory is a Store.
type memory struct {
	records []imagegc.Record
	saves   int
	err     error
}

func (m *memory) Load(context.Context) ([]imagegc.Record, error) { return m.records, m.err }

func (m *memory) Save(_ context.Context, records []imagegc.Record) error {
	if m.err != nil {
		return m.err
	}
	m.records, m.saves = slices.Clone(records), m.saves+1
	return nil
}

// In the kubelet a restart made every image new: MinAge and MaxAge began again (kubernetes#119642,
// #119711).
func TestUpstream119642AgesSurviveARestart(t *testing.T) {
	for name, tc := range map[string]struct {
		kept bool
		want []string
	}{"with a store": {true, []string{"i00"}}, "without": {false, nil}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &memory{}
				opts := func(o *imagegc.Options) {
					o.Policy.MaxAge = 24 * time.Hour
					if tc.kept {
						o.Store = store
					}
				}
				f := newFixture(t, opts, images(2)...)
				f.node.Run("c", "r.example/i01:1")
				f.collect()
				time.Sleep(25 * time.Hour)
				require.NoError(t, f.gc.Detect(t.Context()))
				f.node.Stop("c")

				again := newFixture(t, func(o *imagegc.Options) {
					opts(o)
					o.Images, o.InUse, o.Disk = f.node, f.node, f.node
				})
				assert.Equal(t, tc.want, names(again.collect().Removed))
			})
		})
	}
}

func TestRecordsAreSavedWhenTheyMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		f := newFixture(t, func(o *imagegc.Options) { o.Store = store }, images(2)...)
		steps := []struct {
			what string
			do   func()
			save int
		}{
			{"first", func() {}, 1},
			{"again", func() {}, 0},
			{"an image is used", func() { f.node.Run("c", "r.example/i00:1") }, 1},
			{"it still is", func() { time.Sleep(time.Minute) }, 0},
			{"it is not any more", func() { f.node.Stop("c") }, 1},
			{"a new image", func() { f.node.Add(image("r.example/new:1")) }, 1},
			{"an hour later", func() { time.Sleep(time.Hour) }, 1},
		}
		for _, s := range steps {
			before := store.saves
			s.do()
			require.NoError(t, f.gc.Detect(t.Context()))
			assert.Equal(t, s.save, store.saves-before, s.what)
		}
		f.empty()
		assert.Len(t, store.records, 3, "what was listed last: the next look finds out")
		require.NoError(t, f.gc.Detect(t.Context()))
		assert.Empty(t, store.records)
	})
}

func TestStoreThatFailsIsToldAndWorkGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("corrupt")
		store := &memory{err: broken, records: []imagegc.Record{{ID: image("r.example/i00:1").ID(), FirstDetected: time.Now()}}}
		f := newFixture(t, func(o *imagegc.Options) { o.Store = store }, images(2)...)
		result, err := f.gc.DeleteUnusedImages(t.Context())
		require.ErrorIs(t, err, broken)
		assert.ErrorContains(t, err, "load image records: corrupt")
		assert.ErrorContains(t, err, "save image records: corrupt")
		assert.Len(t, result.Removed, 2)
		store.err = nil
		require.NoError(t, f.gc.Detect(t.Context()), "told once")
		assert.Equal(t, 1, store.saves)
	})
}

// Records saved with a clock ahead of time must not keep images young forever.
func TestRecordsFromTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := image("r.example/a:1")
		store := &memory{records: []imagegc.Record{{ID: a.ID(), FirstDetected: time.Now().Add(9000 * time.Hour), LastUsed: time.Now().Add(9001 * time.Hour)}}}
		f := newFixture(t, func(o *imagegc.Options) { o.Store, o.Policy.MaxAge, o.Policy.MinAge = store, time.Hour, time.Minute }, a)
		require.NoError(t, f.gc.Detect(t.Context()))
		time.Sleep(time.Hour + 1)
		assert.Equal(t, []string{"a"}, names(f.collect().Removed))
	})
}
