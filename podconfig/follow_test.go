// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
)

// setCall is a call of set.
type setCall struct {
	uids     []types.UID
	complete bool
}

// level records its calls.
type level struct {
	calls []setCall
	last  []*v1.Pod
	takes time.Duration
	err   error
}

func (l *level) set(pods []*v1.Pod, complete bool) error {
	time.Sleep(l.takes)
	call := setCall{complete: complete}
	for _, pod := range pods {
		call.uids = append(call.uids, pod.UID)
	}
	l.calls, l.last = append(l.calls, call), pods
	return l.err
}

// says is a source that submits a change for each value from next, and then waits for its end.
func says(name string, next <-chan podconfig.Change) podconfig.Source {
	return podconfig.SourceFunc(name, func(ctx context.Context, out podconfig.Sink) error {
		for {
			select {
			case c, ok := <-next:
				if !ok {
					return errors.New("broken")
				}
				if err := out.Submit(ctx, c); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

func TestFollowPassesTheLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files, api := make(chan podconfig.Change), make(chan podconfig.Change)
		l := &level{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- podconfig.Follow(ctx, podconfig.StoreOptions{}, l.set, says("file", files), says("api", api))
		}()

		files <- podconfig.Snapshot(pod("a", "1"), pod("b", "2"))
		synctest.Wait()
		assert.Equal(t, []setCall{{[]types.UID{"1", "2"}, false}}, l.calls)
		before := l.last

		api <- podconfig.Snapshot()
		synctest.Wait()
		assert.Equal(t, setCall{[]types.UID{"1", "2"}, true}, l.calls[len(l.calls)-1], "the other source has spoken, too")
		assert.Same(t, before[0], l.last[0])

		files <- podconfig.Snapshot(pod("a", "1"), pod("b", "2", image("new")))
		synctest.Wait()
		assert.Same(t, before[0], l.last[0], "what did not change is the same pod")
		assert.NotSame(t, before[1], l.last[1])

		api <- podconfig.Upsert(pod("c", "3"))
		files <- podconfig.Remove("1")
		synctest.Wait()
		assert.Equal(t, setCall{[]types.UID{"2", "3"}, true}, l.calls[len(l.calls)-1])

		cancel()
		require.NoError(t, <-ended)
	})
}

// TestFollowGivesASlowConsumerTheNewest expects that a hundred changes during a call lead to a
// single further call.
func TestFollowGivesASlowConsumerTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &level{takes: time.Minute}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- podconfig.Follow(ctx, podconfig.StoreOptions{}, l.set, chatter("file", 100)) }()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		assert.Len(t, l.calls, 2)
		assert.Equal(t, "99", l.last[0].Spec.Containers[0].Image)
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestFollowEndsWithWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no")
		l := &level{err: broken}
		require.ErrorIs(t, podconfig.Follow(t.Context(), podconfig.StoreOptions{}, l.set, chatter("file", 1)), broken)
		assert.Len(t, l.calls, 1)

		l = &level{}
		next := make(chan podconfig.Change)
		close(next)
		require.ErrorContains(t, podconfig.Follow(t.Context(), podconfig.StoreOptions{}, l.set, idle("api"), says("file", next)), `"file": broken`)
		require.ErrorContains(t, podconfig.Follow(t.Context(), podconfig.StoreOptions{}, l.set, nil), "source 0 is nil")
		require.ErrorContains(t, podconfig.Follow(t.Context(), podconfig.StoreOptions{}, nil), "set must not be nil")
		o := podconfig.StoreOptions{Seed: map[string][]*v1.Pod{"": nil}}
		require.ErrorContains(t, podconfig.Follow(t.Context(), o, l.set), "StoreOptions.Seed")
	})
}

// A change that comes in while the consumer is busy and ctx ends is not passed on.
func TestFollowPassesNothingAfterTheEnd(t *testing.T) {
	for range 20 { // the end and the change are found in an order of chance
		synctest.Test(t, func(t *testing.T) {
			files := make(chan podconfig.Change)
			l := &level{takes: time.Second}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- podconfig.Follow(ctx, podconfig.StoreOptions{}, l.set, says("file", files)) }()
			files <- podconfig.Snapshot(pod("a", "1"))
			synctest.Wait()
			files <- podconfig.Snapshot(pod("a", "1"), pod("b", "2"))
			synctest.Wait()
			cancel()
			require.NoError(t, <-ended)
			assert.Len(t, l.calls, 1)
		})
	}
}
