// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// listOnly hides every ability but the seam itself.
type listOnly struct{ runtime.Runtime }

// track runs a tracker over rt until the bubble's test ends.
func (n *node) track(rt runtime.Runtime) *runtime.Tracker {
	n.Helper()
	tracker, err := runtime.NewTracker(runtime.TrackerOptions{Runtime: rt})
	require.NoError(n, err)
	ctx, cancel := context.WithCancel(n.Context())
	done := make(chan error, 1)
	go func() { done <- tracker.Run(ctx) }()
	n.Cleanup(func() {
		cancel()
		require.NoError(n, <-done)
		require.ErrorIs(n, tracker.Run(context.Background()), runtime.ErrRunning)
	})
	synctest.Wait()
	return tracker
}

func TestTrackerHearsOfAnExitAtOnce(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(30*time.Second, 1))
		n.mustSync(pod)
		tracker := n.track(n.rt)
		<-tracker.Dirty()
		require.Equal(n, []types.UID{pod.UID}, tracker.Take(), "every pod that exists, to begin with")
		<-tracker.Dirty()
		require.Equal(n, []types.UID{pod.UID}, tracker.Take())
		status, err := n.rt.PodStatus(n.Context(), pod.UID)
		require.NoError(n, err)
		require.Equal(n, time.Now(), status.Latest("c").FinishedAt, "no time passed since")
	})
}

func TestTrackerWithoutEventsRelists(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(90*time.Second, 1))
		n.mustSync(pod)
		tracker := n.track(listOnly{n.rt})
		<-tracker.Dirty()
		tracker.Take()
		<-tracker.Dirty()
		require.Equal(n, []types.UID{pod.UID}, tracker.Take())
		status, err := n.rt.PodStatus(n.Context(), pod.UID)
		require.NoError(n, err)
		require.LessOrEqual(n, time.Since(status.Latest("c").FinishedAt), time.Second)
	})
}

// The kubelet's event channel drops events when full, and the dropped changes are not found before
// the next resync (kubernetes#72709).
func TestUpstream72709NothingOverflows(t *testing.T) {
	inBubble(t, func(n *node) {
		tracker := n.track(n.rt)
		var want []types.UID
		for i := range 5000 {
			uid := types.UID(fmt.Sprint("uid-", i))
			tracker.Mark(uid)
			tracker.Mark(uid)
			want = append(want, uid)
		}
		require.Equal(n, want, tracker.Take())
		require.Empty(n, tracker.Take())
	})
}

func TestTrackerMarksPodsThatAreGone(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		n.mustSync(pod)
		tracker := n.track(listOnly{n.rt})
		tracker.Take()
		n.kill(pod)
		require.NoError(n, n.manager.RemovePod(n.Context(), pod.UID))
		require.NoError(n, tracker.Relist(n.Context()))
		require.Equal(n, []types.UID{pod.UID}, tracker.Take())
		require.NoError(n, tracker.Relist(n.Context()))
		require.Empty(n, tracker.Take(), "once")
		listed, at := tracker.Pods()
		require.Empty(n, listed)
		require.Equal(n, time.Now(), at)
	})
}

func TestTrackerSurvivesAFailingRuntime(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		n.mustSync(pod)
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpList}, Err: errors.New("down"), For: time.Minute})
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpWatch}, Err: errors.New("down"), For: time.Minute})
		tracker := n.track(n.rt)
		require.Empty(n, tracker.Take())
		n.pass(70 * time.Second)
		require.Equal(n, []types.UID{pod.UID}, tracker.Take())
		_, at := tracker.Pods()
		require.NotZero(n, at)
	})
}

// A runtime that is down is asked at growing intervals, and its return is noticed within two
// seconds.
func TestTrackerAsksARuntimeThatIsDownRarely(t *testing.T) {
	for name, hide := range map[string]func(runtime.Runtime) runtime.Runtime{
		"watched": func(rt runtime.Runtime) runtime.Runtime { return rt },
		"listed":  func(rt runtime.Runtime) runtime.Runtime { return listOnly{rt} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(n *node) {
				pod := newPod()
				n.mustSync(pod)
				n.inject(fake.Fault{On: fake.Target{Op: fake.OpList}, Err: errors.New("down"), For: time.Minute})
				n.inject(fake.Fault{On: fake.Target{Op: fake.OpWatch}, Err: errors.New("down"), For: time.Minute})
				calls := func() int { return n.world.Total(fake.OpList) + n.world.Total(fake.OpWatch) }
				before := calls()
				tracker := n.track(hide(n.rt))
				n.pass(59 * time.Second)
				require.Less(n, calls()-before, 75)
				require.Empty(n, tracker.Take())
				require.Empty(n, tracker.Recovered())
				n.pass(3 * time.Second)
				require.Equal(n, []types.UID{pod.UID}, tracker.Take())
				require.Len(n, tracker.Recovered(), 1)
			})
		})
	}
}

// A pod whose state the caller has read is not marked by the next listing, unless it changes.
func TestObservedPodsAreNotMarked(t *testing.T) {
	inBubble(t, func(n *node) {
		tracker := n.track(listOnly{n.rt})
		tracker.Take()
		pod := newPod()
		status := n.mustSync(pod)
		tracker.Observed(status)
		require.NoError(n, tracker.Relist(n.Context()))
		require.Empty(n, tracker.Take(), "the caller knows its own calls")
		require.NoError(n, n.world.Kill(pod.UID, "c", 1))
		tracker.Observed(status) // late
		require.NoError(n, tracker.Relist(n.Context()))
		require.Equal(n, []types.UID{pod.UID}, tracker.Take())
	})
}

// The pauses of a failing runtime double from 0.1 s to 2 s, in each outage afresh.
func TestPausesOfAFailingRuntime(t *testing.T) {
	for _, op := range []fake.Op{fake.OpList, fake.OpWatch} {
		inBubble(t, func(n *node) {
			var at []time.Duration
			since := func() []time.Duration {
				at = nil
				for _, e := range n.world.Journal() {
					if e.Op == op {
						at = append(at, e.At)
					}
				}
				return at
			}
			down := func() {
				n.inject(fake.Fault{On: fake.Target{Op: op}, Err: errors.New("down"), For: 6 * time.Second})
			}
			down()
			n.track(n.rt)
			n.pass(20 * time.Second)
			require.Equal(n, []time.Duration{0, 100e6, 300e6, 700e6, 1500e6, 3100e6, 5100e6, 7100e6}, since())
			down()
			began := n.world.Now()
			if op == fake.OpWatch {
				n.world.BreakWatch(errors.New("down"))
				n.pass(3 * time.Second)
				require.Equal(n, began+100e6, since()[8])
				return
			}
			n.pass(50 * time.Second)
			require.Equal(n, 67100*time.Millisecond, since()[8])
		})
	}
}

// A watch that ends and begins again is logged and reported once, whatever the number of hints. The end of Run is none.
func TestWatchThatBreaks(t *testing.T) {
	inBubble(t, func(n *node) {
		core, logs := observer.New(zap.InfoLevel)
		pod := newPod(regular("a", "b", "c", "d", "e", "f"))
		n.mustSync(pod)
		tracker, err := runtime.NewTracker(runtime.TrackerOptions{Runtime: eager{n.rt}, Logger: zap.New(core)})
		require.NoError(n, err)
		ctx, cancel := context.WithCancel(n.Context())
		done := make(chan error, 1)
		go func() { done <- tracker.Run(ctx) }()
		n.pass(time.Second)
		for i := range 2 {
			broken, err := n.world.Inject(fake.Fault{On: fake.Target{Op: fake.OpWatch}, Err: errors.New("down")})
			require.NoError(n, err)
			n.world.BreakWatch(errors.New("down"))
			n.pass(10 * time.Second)
			require.Equal(n, 2*i+1, logs.Len(), logs.All())
			require.Empty(n, tracker.Recovered())
			broken.Clear()
			n.pass(10 * time.Second)
			require.Equal(n, 2*i+2, logs.Len(), logs.All())
			require.Len(n, tracker.Recovered(), 1)
			<-tracker.Recovered()
			for _, c := range pod.Spec.Containers[3*i : 3*i+3] {
				require.NoError(n, n.world.Kill(pod.UID, c.Name, 1))
				n.pass(time.Minute)
			}
			require.Equal(n, 2*i+2, logs.Len(), logs.All())
			require.Empty(n, tracker.Recovered())
		}
		cancel()
		require.NoError(n, <-done)
		require.Equal(n, 4, logs.Len(), logs.All())
	})
}

// eager is a runtime whose Watch tells the end of its context as an error.
type eager struct{ *fake.Runtime }

func (e eager) Watch(ctx context.Context) iter.Seq2[types.UID, error] {
	return func(yield func(types.UID, error) bool) {
		for uid, err := range e.Runtime.Watch(ctx) {
			if !yield(uid, err) {
				return
			}
		}
		yield("", ctx.Err())
	}
}

// After a watch of more than 2 s, the next begins after 0.1 s again.
func TestPauseAfterAWatch(t *testing.T) {
	for lasted, pause := range map[time.Duration]time.Duration{
		2 * time.Second: 1600 * time.Millisecond, 2*time.Second + 1: 100 * time.Millisecond, 3 * time.Second: 100 * time.Millisecond,
	} {
		inBubble(t, func(n *node) {
			n.inject(fake.Fault{On: fake.Target{Op: fake.OpWatch}, Err: errors.New("down"), Times: 4}) // at 0, 0.1, 0.3 and 0.7 s
			n.track(n.rt)
			n.pass(1500*time.Millisecond + lasted)
			watches := n.world.Total(fake.OpWatch)
			n.world.BreakWatch(errors.New("down"))
			n.pass(pause - 1)
			require.Equal(n, watches, n.world.Total(fake.OpWatch), lasted)
			n.pass(2)
			require.Equal(n, watches+1, n.world.Total(fake.OpWatch), lasted)
		})
	}
}
