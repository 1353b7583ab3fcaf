// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
)

// start runs Run in the background. The returned func ends Run and returns its result.
func start(t *testing.T, m podconfig.Merger, out func(context.Context, podconfig.Update) error, sources ...podconfig.Source) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- podconfig.Run(ctx, m, out, sources...) }()
	return func() error {
		cancel()
		return <-result
	}
}

// chatter is a source that submits n changes of a pod and then waits for its end.
func chatter(name string, n int) podconfig.Source {
	return podconfig.SourceFunc(name, func(ctx context.Context, out podconfig.Sink) error {
		for i := range n {
			p := pod("p", types.UID("uid-"+name), image(fmt.Sprint(i)))
			if err := out.Submit(ctx, podconfig.Snapshot(p)); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return ctx.Err()
	})
}

func idle(name string) podconfig.Source { return chatter(name, 0) }

// collector records updates. It must not be called concurrently; the race detector checks for
// violations.
type collector struct {
	updates []podconfig.Update
	// refuse, if set, is called first.
	refuse func(podconfig.Update) error
}

func (c *collector) take(_ context.Context, u podconfig.Update) error {
	if c.refuse != nil {
		if err := c.refuse(u); err != nil {
			return err
		}
	}
	c.updates = append(c.updates, u)
	return nil
}

func TestRunChecksItsArguments(t *testing.T) {
	s, out := newStore(t, podconfig.StoreOptions{}), (&collector{}).take
	for want, err := range map[string]error{
		"merger and out must not be nil": podconfig.Run(t.Context(), nil, out),
		"source 1 is nil":                podconfig.Run(t.Context(), s, out, idle("a"), nil),
		"source without name":            podconfig.Run(t.Context(), s, out, idle("")),
		`two sources are named "a"`:      podconfig.Run(t.Context(), s, out, idle("a"), idle("a")),
	} {
		require.ErrorContains(t, err, want)
	}
	require.ErrorContains(t, podconfig.Run(t.Context(), s, nil), "must not be nil")
}

func TestRunDeliversInOrderAndEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newStore(t, podconfig.StoreOptions{}), &collector{}
		stop := start(t, s, c.take, chatter("api", 50), chatter("file", 50), idle("http"))
		synctest.Wait()
		require.NoError(t, stop())
		require.Len(t, c.updates, 100)
		next := map[string]int{}
		for _, u := range c.updates {
			require.Equal(t, fmt.Sprint(next[u.Source]), u.Pods[0].Spec.Containers[0].Image)
			next[u.Source]++
		}
	})
}

func TestRunWithoutSourcesWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		require.NoError(t, podconfig.Run(ctx, newStore(t, podconfig.StoreOptions{}), (&collector{}).take))
		require.Equal(t, time.Minute, time.Since(began))
	})
}

// bare is a Merger without a method Register.
type bare struct{ podconfig.Merger }

// registrar is a Merger that records its registered sources.
type registrar struct {
	bare
	names []string
	err   error
}

func (r *registrar) Register(names ...string) error {
	r.names = names
	return r.err
}

// A Merger learns the names of all sources before any source runs. Register is optional, and its error
// ends Run.
func TestRunRegistersTheSources(t *testing.T) {
	store, out := bare{newStore(t, podconfig.StoreOptions{})}, (&collector{}).take
	r := &registrar{bare: store, err: errors.New("no place")}
	err := podconfig.Run(t.Context(), r, out, idle("b"), idle("a"))
	require.EqualError(t, err, "podconfig: Run: register the sources: no place")
	require.Equal(t, []string{"b", "a"}, r.names)

	require.ErrorContains(t, podconfig.Run(t.Context(), store, out, idle("a"), idle("")), "source 1: podconfig: source without name")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, podconfig.Run(ctx, store, out, idle("a")))
}

func TestRunReportsAFailedSourceAndLosesNothing(t *testing.T) {
	broken := errors.New("disk on fire")
	for name, tt := range map[string]struct {
		result error
		want   error
		text   string
	}{
		"error":             {broken, broken, `podconfig: source "file": disk on fire`},
		"ends early":        {nil, podconfig.ErrSourceEnded, `podconfig: source "file": podconfig: source ended early`},
		"somebody's cancel": {context.Canceled, context.Canceled, `podconfig: source "file": context canceled`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := newStore(t, podconfig.StoreOptions{}), &collector{}
				failing := podconfig.SourceFunc("file", func(ctx context.Context, out podconfig.Sink) error {
					assert.NoError(t, out.Submit(ctx, podconfig.Snapshot(pod("a", "1"))))
					return tt.result
				})
				err := podconfig.Run(t.Context(), s, c.take, failing, idle("api"))
				require.ErrorIs(t, err, tt.want)
				require.EqualError(t, err, tt.text, "the other source ended because it was told to")
				require.Equal(t, "ADD[a/1]+", brief(c.updates))

				again := chatterOf("file", podconfig.Snapshot(pod("a", "1"), pod("b", "2")))
				stop := start(t, s, c.take, again, idle("api"))
				synctest.Wait()
				require.NoError(t, stop())
				require.Equal(t, "ADD[a/1]+ ADD[b/2]", brief(c.updates), "a second Run goes on")
			})
		})
	}
}

// chatterOf is a source that submits the given changes and then waits for its end.
func chatterOf(name string, changes ...podconfig.Change) podconfig.Source {
	return podconfig.SourceFunc(name, func(ctx context.Context, out podconfig.Sink) error {
		for _, c := range changes {
			if err := out.Submit(ctx, c); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return nil
	})
}

func TestRunReportsSeveralFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := podconfig.SourceFunc("late", func(ctx context.Context, _ podconfig.Sink) error {
			<-ctx.Done()
			return errors.New("cannot clean up")
		})
		early := podconfig.SourceFunc("early", func(context.Context, podconfig.Sink) error { return nil })
		err := podconfig.Run(t.Context(), newStore(t, podconfig.StoreOptions{}), (&collector{}).take, late, early)
		require.ErrorIs(t, err, podconfig.ErrSourceEnded)
		require.ErrorContains(t, err, `source "late": cannot clean up`)
	})
}

func TestRunEndsWhenTheConsumerRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("full")
		c := &collector{refuse: func(u podconfig.Update) error {
			if u.Source == "api" {
				return full
			}
			return nil
		}}
		err := podconfig.Run(t.Context(), newStore(t, podconfig.StoreOptions{}), c.take, chatter("api", 5), chatter("file", 5))
		require.ErrorIs(t, err, full)
		require.EqualError(t, err, `podconfig: hand over ADD of source "api": full`)
	})
}

func TestRunTellsTheSourceAboutItsMistake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		var mistake error
		s := podconfig.SourceFunc("file", func(ctx context.Context, out podconfig.Sink) error {
			mistake = out.Submit(ctx, podconfig.Change{})
			return chatter("file", 1).Run(ctx, out)
		})
		stop := start(t, newStore(t, podconfig.StoreOptions{}), c.take, s)
		synctest.Wait()
		require.NoError(t, stop(), "it is no failure")
		require.ErrorIs(t, mistake, podconfig.ErrUnknownChange)
		require.Len(t, c.updates, 1)
	})
}

func TestSubmitAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sink podconfig.Sink
		s := podconfig.SourceFunc("file", func(_ context.Context, out podconfig.Sink) error {
			sink = out
			return nil
		})
		store := newStore(t, podconfig.StoreOptions{})
		require.Error(t, podconfig.Run(t.Context(), store, (&collector{}).take, s))
		require.ErrorIs(t, sink.Submit(t.Context(), podconfig.Snapshot()), podconfig.ErrStopped)
		reason := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(reason)
		require.ErrorIs(t, sink.Submit(ctx, podconfig.Snapshot()), reason)
		require.False(t, store.Seen("file"))
	})
}

// A change that is submitted after the end of ctx is not merged, although Run would take it.
func TestSubmitAfterTheEndOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("enough")
		store := newStore(t, podconfig.StoreOptions{})
		s := podconfig.SourceFunc("file", func(ctx context.Context, out podconfig.Sink) error {
			ended, cancel := context.WithCancelCause(ctx)
			cancel(reason)
			for range 100 { // Run waits for submissions each time
				synctest.Wait()
				assert.ErrorIs(t, out.Submit(ended, podconfig.Snapshot()), reason)
			}
			<-ctx.Done()
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, podconfig.Run(ctx, store, (&collector{}).take, s))
		require.False(t, store.Seen("file"))
	})
}

// The pods of a change are in use until it is merged, so that a source must not get them back
// earlier, even if its context ends.
func TestSubmitWaitsForTheMergeThatBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, returned := make(chan struct{}), false
		slow := func(context.Context, podconfig.Update) error {
			<-release
			return nil
		}
		hasty := podconfig.SourceFunc("file", func(ctx context.Context, out podconfig.Sink) error {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			assert.NoError(t, out.Submit(short, podconfig.Snapshot(pod("a", "1"))))
			returned = true
			<-ctx.Done()
			return nil
		})
		stop := start(t, newStore(t, podconfig.StoreOptions{}), slow, hasty)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.False(t, returned)
		close(release)
		synctest.Wait()
		require.True(t, returned)
		require.NoError(t, stop())
	})
}

// A source that waits for its turn returns when its context ends.
func TestSubmitGivesUpWaitingForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		slow := func(context.Context, podconfig.Update) error {
			<-release
			return nil
		}
		var got error
		hasty := podconfig.SourceFunc("file", func(ctx context.Context, out podconfig.Sink) error {
			time.Sleep(time.Second)
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			got = out.Submit(short, podconfig.Snapshot())
			<-ctx.Done()
			return nil
		})
		store := newStore(t, podconfig.StoreOptions{})
		stop := start(t, store, slow, chatter("api", 1), hasty)
		time.Sleep(time.Minute)
		synctest.Wait()
		close(release)
		require.NoError(t, stop())
		require.ErrorIs(t, got, context.DeadlineExceeded)
		require.False(t, store.Seen("file"))
	})
}

// In the kubelet, the source blocks forever if its context ends before the first turn of the
// merging goroutine. If the context ends later, the goroutine leaks. In a bubble either fault fails
// the test.
func TestUpstreamCancelLeaksOrBlocksTheSource(t *testing.T) {
	for _, after := range []time.Duration{0, time.Nanosecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			endless := podconfig.SourceFunc("api", func(ctx context.Context, out podconfig.Sink) error {
				for {
					if err := out.Submit(ctx, podconfig.Snapshot(pod("a", "1"))); err != nil {
						return err
					}
					time.Sleep(time.Millisecond)
				}
			})
			require.NoError(t, podconfig.Run(ctx, newStore(t, podconfig.StoreOptions{}), (&collector{}).take, endless, idle("file")))
		})
	}
}

// A merged change reaches the consumer even during shutdown. Otherwise the store would count it as
// known and never send it again.
func TestRunHandsOverWhatWasMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := &collector{}
		c.refuse = func(podconfig.Update) error {
			cancel()
			return nil
		}
		s := newStore(t, podconfig.StoreOptions{})
		change := podconfig.Snapshot(pod("a", "1"), pod("b", "2", image("x:2")))
		merge(t, s, "file", podconfig.Upsert(pod("b", "2"), pod("c", "3")))
		require.NoError(t, podconfig.Run(ctx, s, c.take, chatterOf("file", change, podconfig.Snapshot())))
		require.Equal(t, "REMOVE[c/3] ADD[a/1] UPDATE[b/2]+", brief(c.updates), "all of the first change, nothing of the second")
	})
}

// A blocking consumer may give up during shutdown. The lost update is reported as an error.
func TestRunNamesWhatABlockedConsumerGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := func(ctx context.Context, _ podconfig.Update) error {
			<-ctx.Done()
			return ctx.Err()
		}
		stop := start(t, newStore(t, podconfig.StoreOptions{}), block, chatter("file", 1))
		synctest.Wait()
		err := stop()
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, `hand over ADD of source "file"`)
	})
}
