// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// slowHook makes the first container's postStart hook take a minute.
func slowHook(p *v1.Pod) {
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 60}}}
}

// begin syncs a pod in the background. wait returns the result.
func (n *node) begin(req runtime.SyncRequest) (changed chan<- struct{}, wait func() runtime.Result) {
	n.Helper()
	ch, done := make(chan struct{}, 1), make(chan runtime.Result, 1)
	req.Changed = ch
	go func() { done <- n.manager.SyncPod(n.Context(), req) }()
	return ch, func() runtime.Result { return <-done }
}

// The next pass handles a sandbox that is lost during a hook: nothing starts in it meanwhile, nor
// beside its running containers.
func TestALostSandboxWaitsForTheNextPass(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("a", "b"), slowHook)
		changed, wait := n.begin(runtime.SyncRequest{Pod: pod})
		n.pass(time.Second)
		require.NoError(n, n.world.SandboxLosesIP(pod.UID))
		changed <- struct{}{}
		n.pass(10 * time.Second)
		require.Equal(n, 1, n.world.Count(fake.Target{Op: fake.OpStartContainer, Container: "b"}))
		require.NoError(n, n.world.NoOverlap())
		wait()
		require.NoError(n, n.world.NoOverlap())
	})
}

// An init container in an unknown state is stopped in order to run again, and may complete because
// of the stop. The following containers wait nevertheless.
func TestNothingFollowsAnInitContainerThatIsToRunAgain(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("main"), initial("init"))
		n.world.Script(fake.Target{Container: "init"}, fake.Script{TermAfter: time.Second}, fake.Exit(time.Minute, 0))
		n.mustSync(pod)
		require.NoError(n, n.world.LoseTrack(pod.UID, "init"))
		_, err := n.world.Inject(fake.Fault{On: fake.Target{Op: fake.OpCreateContainer, Container: "init"}, Latency: time.Second})
		require.NoError(n, err)
		changed, wait := n.begin(runtime.SyncRequest{Pod: pod})
		for range 30 {
			n.pass(100 * time.Millisecond)
			select {
			case changed <- struct{}{}:
			default:
			}
		}
		wait()
		require.Equal(n, 2, n.world.Count(fake.Target{Op: fake.OpStartContainer, Container: "init"}))
		require.Zero(n, n.world.Count(fake.Target{Op: fake.OpStartContainer, Container: "main"}))
		n.pass(time.Minute)
		n.mustSync(pod)
		require.Equal(n, 1, n.world.Count(fake.Target{Op: fake.OpStartContainer, Container: "main"}))
	})
}

// During a restart of all containers in place, no container starts before all have ended.
func TestRestartAllStartsNothingBeforeAllHaveEnded(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("quick", "slow"), grace(30))
		pod.Spec.Containers = append(pod.Spec.Containers, restartsAll("trigger"))
		n.world.Script(fake.Target{Container: "slow"}, fake.Script{TermAfter: fake.Never})
		n.world.Script(fake.Target{Container: "trigger"}, fake.Exit(time.Second, 42), fake.Script{})
		n.mustSync(pod)
		n.pass(time.Second)
		changed, wait := n.begin(runtime.SyncRequest{Pod: pod})
		n.pass(500 * time.Millisecond)
		changed <- struct{}{}
		n.pass(100 * time.Millisecond)
		require.Equal(n, 1, n.world.Count(fake.Target{Op: fake.OpExited, Container: "quick"}))
		require.Equal(n, 1, n.world.Count(fake.Target{Op: fake.OpStartContainer, Container: "quick"}), "not yet")
		require.NoError(n, n.world.LoseRecords(pod.UID, "trigger"))
		changed <- struct{}{}
		n.pass(100 * time.Millisecond)
		require.Equal(n, 1, n.world.Count(fake.Target{Op: fake.OpStartContainer, Container: "quick"}), "nor without the record of the trigger")
		r := wait()
		require.NoError(n, r.Err())
		require.Equal(n, 1, n.world.Total(fake.OpRunSandbox), "the sandbox stays")
	})
}

// The next pass restarts all containers if one of them asks for it during a hook: nothing is stopped meanwhile.
func TestARestartOfAllWaitsForTheNextPass(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("a", "b"), slowHook)
		pod.Spec.Containers = append(pod.Spec.Containers, restartsAll("trigger"))
		n.world.Script(fake.Target{Container: "trigger"}, fake.Exit(time.Second, 42), fake.Script{})
		changed, wait := n.begin(runtime.SyncRequest{Pod: pod})
		n.pass(2 * time.Second)
		changed <- struct{}{}
		n.pass(10 * time.Second)
		require.Zero(n, n.world.Total(fake.OpStopContainer))
		require.NoError(n, wait().Err())
		n.mustSync(pod)
		require.Equal(n, 2, n.started("b"))
	})
}

// A container that restarts beside a slow hook pulls its image according to its policy.
func TestASiblingsImageIsPulledWhileAHookRuns(t *testing.T) {
	inBubble(t, func(n *node) {
		images := n.withImages(runtime.Options{})
		pod := newPod(regular("a", "b"), slowHook)
		pod.Spec.Containers[1].ImagePullPolicy = v1.PullAlways
		n.world.Script(fake.Target{Container: "b"}, fake.Exit(5*time.Second, 1), fake.Script{})
		changed, wait := n.begin(runtime.SyncRequest{Pod: pod})
		n.pass(10 * time.Second)
		before := len(images.pulls)
		changed <- struct{}{}
		n.pass(5 * time.Second)
		require.Greater(n, len(images.pulls), before)
		require.Equal(n, 2, n.world.Count(fake.Target{Op: fake.OpStartContainer, Container: "b"}))
		wait()
	})
}

// A sleep as postStart hook keeps its time, also if its container has ended.
func TestASleepKeepsItsTime(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("a"), slowHook)
		n.world.Script(fake.Target{Container: "a"}, fake.Exit(5*time.Second, 1), fake.Script{})
		began := time.Now()
		changed, wait := n.begin(runtime.SyncRequest{Pod: pod})
		n.pass(6 * time.Second)
		changed <- struct{}{}
		require.NoError(n, wait().Err())
		require.GreaterOrEqual(n, time.Since(began), time.Minute)
	})
}

// While the pod cannot be read, nothing happens beside a slow hook, and no look follows the end of the call's
// context.
func TestLooksThatFail(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("a", "b"), slowHook)
		n.world.Script(fake.Target{Container: "b"}, fake.Exit(time.Second, 1), fake.Script{})
		var told int
		ctx, cancel := context.WithCancelCause(n.Context())
		changed, done := make(chan struct{}), make(chan runtime.Result)
		go func() {
			done <- n.manager.SyncPod(ctx, runtime.SyncRequest{Pod: pod, Changed: changed, Progress: func(runtime.Progress) { told++ }})
		}()
		n.pass(2 * time.Second)
		broken, err := n.world.Inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus}, Err: errors.New("away")})
		require.NoError(n, err)
		before := told
		changed <- struct{}{}
		n.pass(time.Second)
		require.Equal(n, before, told)
		broken.Clear()
		changed <- struct{}{}
		n.pass(time.Millisecond)
		require.Equal(n, before+1, told)
		require.Equal(n, 2, n.started("b"))
		cause := errors.New("the pod was deleted")
		cancel(cause)
		r := <-done
		require.EqualError(n, r.Err(), cause.Error())
		require.Nil(n, r.Status)
	})
}

// An exec hook may never return after the end of its container. It ends when the pod has changed.
func TestAPostStartHookEndsWithItsContainer(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(func(p *v1.Pod) { p.Spec.Containers = nil }, hooked("a", execHandler("x"), nil))
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpExec}, Nth: 1, HangUntilCtx: true})
		n.world.Script(fake.Target{Container: "a"}, fake.Exit(5*time.Second, 1), fake.Script{})
		changed, wait := n.begin(runtime.SyncRequest{Pod: pod})
		n.pass(4 * time.Second)
		changed <- struct{}{}
		n.pass(time.Second)
		require.Equal(n, 1, n.world.Total(fake.OpExec), "its container runs")
		changed <- struct{}{}
		began := time.Now()
		require.ErrorContains(n, wait().Err(), "ended before its postStart hook")
		require.Less(n, time.Since(began), time.Second)
		require.NoError(n, n.sync(pod).Err())
		require.Equal(n, 2, n.started("a"))
	})
}
