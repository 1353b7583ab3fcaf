// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// Each failure of a call schedules the next call: after 1 s, 2 s, 4 s, 8 s and 10 s. A success
// resets the sequence.
func TestEveryFailureSchedulesTheNextCall(t *testing.T) {
	start := func(n *node, pod *v1.Pod) runtime.Result { return n.sync(pod) }
	kill := func(n *node, pod *v1.Pod) runtime.Result {
		return n.manager.KillPod(n.Context(), runtime.KillRequest{Pod: pod})
	}
	for _, c := range []struct {
		ops  []fake.Op
		call func(*node, *v1.Pod) runtime.Result
	}{
		{[]fake.Op{fake.OpRunSandbox}, start}, {[]fake.Op{fake.OpCreateContainer}, start}, {[]fake.Op{fake.OpPodStatus}, start},
		{[]fake.Op{fake.OpStopContainer, fake.OpStopSandbox}, kill}, {[]fake.Op{fake.OpStopSandbox}, kill}, {[]fake.Op{fake.OpPodStatus}, kill},
	} {
		t.Run(fmt.Sprint(c.ops), func(t *testing.T) {
			inBubble(t, func(n *node) {
				pod := newPod()
				if slices.Contains(c.ops, fake.OpStopSandbox) {
					n.mustSync(pod)
				}
				var broken []*fake.Injected
				for _, op := range c.ops {
					in, err := n.world.Inject(fake.Fault{On: fake.Target{Op: op}, Err: errors.New("no")})
					require.NoError(n, err)
					broken = append(broken, in)
				}
				for _, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
					r := c.call(n, pod)
					require.Error(n, r.Err())
					at, again := r.RetryAt()
					require.True(n, again)
					require.Equal(n, want*time.Second, time.Until(at))
					time.Sleep(time.Until(at))
				}
				for _, in := range broken {
					in.Clear()
				}
				r := c.call(n, pod)
				require.NoError(n, r.Err())
				_, again := r.RetryAt()
				require.False(n, again)
				n.inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus}, Err: errors.New("no")})
				at, _ := c.call(n, pod).RetryAt()
				require.Equal(n, time.Second, time.Until(at))
			})
		})
	}
}

// A call that the caller cuts short is due again, and does not count as a failure.
func TestACallThatIsCutShortIsDueAgain(t *testing.T) {
	inBubble(t, func(n *node) {
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpRunSandbox}, HangUntilCtx: true})
		for range 3 {
			ctx, cancel := context.WithTimeout(n.Context(), time.Minute)
			r := n.manager.SyncPod(ctx, runtime.SyncRequest{Pod: newPod()})
			cancel()
			require.ErrorIs(n, r.Err(), context.DeadlineExceeded)
			at, again := r.RetryAt()
			require.True(n, again)
			require.Equal(n, time.Second, time.Until(at))
		}
	})
}

// If a container still runs after a successful stop, another call is scheduled.
func TestWhatStillRunsAfterKillPodIsStoppedAgain(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		n.mustSync(pod)
		_, err := n.world.Inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus}, Lie: fake.Stale})
		require.NoError(n, err)
		r := n.manager.KillPod(n.Context(), runtime.KillRequest{Pod: pod})
		require.NoError(n, r.Err())
		require.NotEmpty(n, r.Status.Running())
		_, again := r.RetryAt()
		require.True(n, again)
	})
}

// A container whose start failed is tried every 10 s beside a slow hook of another container.
func TestAFailedStartIsTriedAgainBesideASlowHook(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("a", "b", "c"), slowHook)
		b := fake.Target{Op: fake.OpCreateContainer, Container: "b"}
		broken, err := n.world.Inject(fake.Fault{On: b, Err: errors.New("no")})
		require.NoError(n, err)
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpCreateContainer, Container: "c"}, Latency: 3 * time.Second, Err: errors.New("no"), Times: 3})
		_, wait := n.begin(runtime.SyncRequest{Pod: pod})
		for _, tries := range []int{1, 2, 3} {
			n.pass(9 * time.Second)
			require.Equal(n, tries, n.world.Count(b))
			n.pass(time.Second)
		}
		broken.Clear()
		n.pass(10 * time.Second)
		require.Equal(n, 1, n.started("b"), "while the hook runs")
		require.NoError(n, wait().Err())
	})
}

// retrySeed repeats a run that failed: go test ./runtime -run TestRetryAtIsEnough -retry-seed 123
var retrySeed = flag.Uint64("retry-seed", 0, "the only seed of TestRetryAtIsEnough; 0 takes new ones")

// TestRetryAtIsEnough: whatever faults a runtime has for a while, a driver that calls
// SyncPod, and at the end KillPod, only when the last Result said so or the runtime tells
// of a change brings the pod up, and down again, and then has nothing to do.
func TestRetryAtIsEnough(t *testing.T) {
	if *retrySeed != 0 {
		drive(t, *retrySeed)
		return
	}
	first := rand.Uint64()
	for seed := first; seed < first+casetest.Rounds[uint64](400) && !t.Failed(); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { drive(t, seed) })
	}
}

func drive(t *testing.T, seed uint64) {
	inBubble(t, func(n *node) {
		d := dice{rand.New(rand.NewPCG(seed, 7))}
		images := n.withImages(runtime.Options{})
		for range d.IntN(3) {
			images.failWith = append(images.failWith, pick(d, nil, errors.New("no such image")))
		}
		pod := d.livePod(n)
		ctx, cancel := context.WithCancel(n.Context())
		tracker, err := runtime.NewTracker(runtime.TrackerOptions{Runtime: images})
		require.NoError(n, err)
		tracked := make(chan error, 1)
		go func() { tracked <- tracker.Run(ctx) }()

		over := d.trouble(n)
		n.follow(tracker, 40*time.Minute, func(ctx context.Context) runtime.Result {
			return n.manager.SyncPod(ctx, runtime.SyncRequest{Pod: pod})
		})
		over()
		status, err := n.rt.PodStatus(n.Context(), pod.UID)
		require.NoError(n, err)
		for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				st := status.Active(list[i].Name)
				require.NotNil(n, st, "%s was not made\n%s", list[i].Name, n.world.Journal())
				if list[i].Name != "init" {
					require.Equal(n, runtime.StateRunning, st.State, "%s\n%s", list[i].Name, n.world.Journal())
				}
			}
		}

		over = d.trouble(n)
		n.follow(tracker, 10*time.Minute, func(ctx context.Context) runtime.Result {
			return n.manager.KillPod(ctx, runtime.KillRequest{Pod: pod})
		})
		over()
		status, err = n.rt.PodStatus(n.Context(), pod.UID)
		require.NoError(n, err)
		require.Empty(n, status.Running(), n.world.Journal())
		require.Nil(n, status.Current())
		require.NoError(n, n.world.NoOverlap())
		cancel()
		require.NoError(n, <-tracked)
	})
}

// livePod returns a pod whose containers all run eventually, some after an exit.
func (d dice) livePod(n *node) *v1.Pod {
	pod := newPod(regular(mainNames[:1+d.IntN(3)]...), grace(int64(d.IntN(20))))
	if d.oneIn(2) {
		initial("init")(pod)
		n.world.Script(fake.Target{Container: "init"}, fake.Exit(time.Second, pick[int32](d, 0, 1)), fake.Exit(time.Second, 0))
	}
	if d.oneIn(2) {
		sidecar("side")(pod)
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		scripts := []fake.Script{fake.Exit(time.Duration(1+d.IntN(20))*time.Second, 1), {TermAfter: fake.Never}}
		n.world.Script(fake.Target{Container: c.Name}, scripts[d.IntN(2):]...)
		hook := &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"hook"}}}
		if d.oneIn(3) {
			c.Lifecycle = &v1.Lifecycle{PostStart: hook, PreStop: hook}
		}
	}
	return pod
}

// trouble injects a few faults that are over in a minute or so.
func (d dice) trouble(n *node) (over func()) {
	ops := []fake.Op{
		fake.OpRunSandbox, fake.OpStopSandbox, fake.OpCreateContainer, fake.OpStartContainer, fake.OpStopContainer,
		fake.OpRemoveContainer, fake.OpPodStatus, fake.OpList, fake.OpWatch, fake.OpExec,
	}
	var faults []*fake.Injected
	for range 1 + d.IntN(4) {
		f := fake.Fault{On: fake.Target{Op: pick(d, ops...)}}
		switch how := d.IntN(4); {
		case how == 0 && f.On.Op != fake.OpList && f.On.Op != fake.OpWatch: // else it hangs for ever
			f.HangUntilCtx, f.Times = true, 1
		case how == 1:
			f.DoneButReplyLost = true
		case how == 2:
			f.Latency = 5 * time.Second
		default:
			f.Err = errors.New("no")
		}
		switch {
		case f.Times != 0:
		case d.oneIn(2):
			f.For = pick(d, time.Second, 10*time.Second, time.Minute)
		default:
			f.Nth = 1 + d.IntN(3)
			f.Times = 1 + d.IntN(6)
		}
		in, err := n.world.Inject(f)
		require.NoError(n, err)
		faults = append(faults, in)
	}
	return func() {
		for _, in := range faults {
			in.Clear()
		}
	}
}

// follow calls as often as the results and the tracker want it, and fails if that does not
// end by itself before the time is over.
func (n *node) follow(tracker *runtime.Tracker, within time.Duration, call func(context.Context) runtime.Result) {
	n.Helper()
	deadline := time.Now().Add(within)
	var last runtime.Result
	for calls := 0; time.Now().Before(deadline); calls++ {
		require.Less(n, calls, 400, "too many calls, the last with %v", last.Err())
		ctx, cancel := context.WithTimeout(n.Context(), 2*time.Minute)
		last = call(ctx)
		cancel()
		at, again := last.RetryAt()
		if last.Err() != nil {
			require.True(n, again, "nothing is scheduled after %v", last.Err())
		}
		wait := time.Until(deadline)
		if again {
			wait = min(wait, time.Until(at))
		}
		select {
		case <-tracker.Dirty():
			tracker.Take()
		case <-time.After(wait):
		}
		synctest.Wait()
	}
	_, again := last.RetryAt()
	require.False(n, again, "still not done: %v\n%s", last.Err(), tail(n.world.Journal()))
}

func tail(j fake.Journal) string {
	lines := strings.Split(j.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

// The pause after earlier failures to create a container does not follow when its postStart hook
// fails: the container was started, and its restarts have a back-off of their own.
func TestAFailedHookIsNoFurtherFailureOfTheStart(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(func(p *v1.Pod) { p.Spec.Containers = nil }, hooked("a", execHandler("x"), nil))
		n.world.Script(fake.Target{Container: "a"}, fake.Script{})
		broken, err := n.world.Inject(fake.Fault{On: fake.Target{Op: fake.OpCreateContainer}, Err: errors.New("no")})
		require.NoError(n, err)
		for range 3 {
			require.Error(n, n.sync(pod).Err())
		}
		broken.Clear()
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpExec}, Err: errors.New("no")})
		r := n.sync(pod)
		require.ErrorContains(n, r.Err(), "PostStartHookError")
		at, _ := r.RetryAt()
		require.Equal(n, time.Second, time.Until(at))
	})
}
