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

func (n *node) kill(pod *v1.Pod) (runtime.Result, time.Duration) {
	n.Helper()
	began := time.Now()
	r := n.manager.KillPod(n.Context(), runtime.KillRequest{Pod: pod})
	return r, time.Since(began)
}

// running returns a pod with two sidecars and two regular containers, all up.
func (n *node) running(opts ...podOption) *v1.Pod {
	n.Helper()
	pod := newPod(append([]podOption{sidecar("s1"), sidecar("s2"), regular("a", "b"), grace(30)}, opts...)...)
	n.mustSync(pod)
	return pod
}

func TestKillPodStopsSidecarsLastAndInReverse(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := n.running()
		n.world.Script(fake.Target{Container: "a"}, fake.Script{TermAfter: 5 * time.Second})
		n.world.Script(fake.Target{Container: "s2"}, fake.Script{TermAfter: 2 * time.Second})
		// Scripts hold from the next start on.
		_, _ = n.kill(pod)
		pod.UID, pod.Name = "uid-2", "second"
		n.mustSync(pod)

		r, took := n.kill(pod)
		require.NoError(n, r.Err())
		require.Equal(n, 7*time.Second, took)
		require.Empty(n, r.Status.Running())
		require.Nil(n, r.Status.Current(), "the sandbox is stopped")
		end := func(name string) time.Time { return r.Status.Latest(name).FinishedAt }
		require.True(n, end("b").Before(end("a")), "regular containers end at their own pace")
		require.Equal(n, 2*time.Second, end("s2").Sub(end("a")), "the last sidecar is told when they are all over")
		require.False(n, end("s1").Before(end("s2")), "the first sidecar is the last to go")
	})
}

func TestKillPodKillsAfterTheGracePeriod(t *testing.T) {
	inBubble(t, func(n *node) {
		n.world.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: fake.Never})
		pod := newPod(grace(7))
		n.mustSync(pod)
		r, took := n.kill(pod)
		require.NoError(n, r.Err())
		require.Equal(n, 7*time.Second, took)
		require.EqualValues(n, 137, r.Status.Latest("c").ExitCode)
	})
}

func TestOneSecondOfGraceIsOneSecond(t *testing.T) {
	inBubble(t, func(n *node) {
		n.world.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: fake.Never})
		pod := newPod(grace(1))
		n.mustSync(pod)
		_, took := n.kill(pod)
		require.Equal(n, time.Second, took, "the kubelet makes it two")
	})
}

// Sidecars whose turn comes too late are stopped at the end of their own grace period.
func TestSidecarsDoNotWaitBeyondTheirGrace(t *testing.T) {
	inBubble(t, func(n *node) {
		n.world.Script(fake.Target{Container: "a"}, fake.Script{TermAfter: fake.Never})
		n.world.Script(fake.Target{Container: "s"}, fake.Script{TermAfter: fake.Never})
		pod := newPod(sidecar("s"), regular("a"), grace(10))
		n.mustSync(pod)
		r, took := n.kill(pod)
		require.NoError(n, r.Err())
		require.LessOrEqual(n, took, 11*time.Second)
		require.Empty(n, r.Status.Running())
	})
}

// A container that cannot be stopped holds no sidecar up; in the kubelet the
// sidecars then wait out the whole grace period.
func TestUpstreamAFailedStopReleasesTheSidecars(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(sidecar("s"), regular("a"), grace(600))
		n.mustSync(pod)
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStopContainer, Container: "a"}, Err: errors.New("stuck")})
		r, took := n.kill(pod)
		require.ErrorIs(n, r.Err(), runtime.ErrKillContainer)
		require.Less(n, took, time.Second)
		require.Equal(n, runtime.StateExited, r.Status.Latest("s").State)
	})
}

// A later sidecar that never started does not block the SIGTERM of earlier ones
// (kubernetes#125880).
func TestUpstream125880SidecarsThatDoNotRunHoldNobodyUp(t *testing.T) {
	inBubble(t, func(n *node) {
		n.world.Script(fake.Target{Container: "s2"}, fake.Script{StartErr: errors.New("no such command")})
		pod := newPod(sidecar("s1"), sidecar("s2"), regular("a"), grace(600))
		n.sync(pod)
		n.sync(pod)
		r, took := n.kill(pod)
		require.NoError(n, r.Err())
		require.Less(n, took, time.Second)
		require.Equal(n, runtime.StateExited, r.Status.Latest("s1").State)
	})
}

func TestPreStopTakesFromTheGracePeriod(t *testing.T) {
	for name, tc := range map[string]struct {
		hook, grace int64
		want        time.Duration
	}{
		"what is left is given":       {hook: 4, grace: 10, want: 10 * time.Second},
		"a hook that hangs is cut":    {hook: 3600, grace: 10, want: 11 * time.Second},
		"the container gets a second": {hook: 10, grace: 10, want: 11 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(n *node) {
				n.world.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: fake.Never})
				pod := newPod(grace(tc.grace))
				pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: tc.hook}}}
				n.mustSync(pod)
				r, took := n.kill(pod)
				require.NoError(n, r.Err())
				require.Equal(n, tc.want, took)
			})
		})
	}
}

func TestKillPodCanBeInterruptedAndHurried(t *testing.T) {
	inBubble(t, func(n *node) {
		n.world.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: fake.Never})
		pod := newPod(grace(3600))
		n.mustSync(pod)
		shorter := errors.New("grace period shortened")
		ctx, cancel := context.WithCancelCause(n.Context())
		time.AfterFunc(5*time.Second, func() { cancel(shorter) })
		began := time.Now()
		r := n.manager.KillPod(ctx, runtime.KillRequest{Pod: pod})
		require.ErrorIs(n, r.Err(), shorter)
		require.Equal(n, 5*time.Second, time.Since(began))
		two := 2 * time.Second
		r = n.manager.KillPod(n.Context(), runtime.KillRequest{Pod: pod, Grace: &two})
		require.NoError(n, r.Err())
		require.Equal(n, 7*time.Second, time.Since(began))
		require.Empty(n, r.Status.Running())
	})
}

// A pod without a spec is stopped according to its containers' annotations.
func TestKillPodWithoutASpec(t *testing.T) {
	inBubble(t, func(n *node) {
		n.world.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: fake.Never})
		pod := newPod(grace(9))
		n.mustSync(pod)
		began := time.Now()
		r := n.manager.KillPod(n.Context(), runtime.KillRequest{UID: pod.UID})
		require.NoError(n, r.Err())
		require.Equal(n, 9*time.Second, time.Since(began))
		require.Empty(n, r.Status.Running())
	})
}

// The grace period of a probe's verdict is the probe's own.
func TestUpdatedImageRestartsWithThePodsGrace(t *testing.T) {
	inBubble(t, func(n *node) {
		n.world.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: fake.Never})
		pod := newPod(grace(4))
		n.mustSync(pod)
		changed := pod.DeepCopy()
		changed.Spec.Containers[0].Image = "img:2"
		began := time.Now()
		r := n.sync(changed)
		require.NoError(n, r.Err())
		require.Equal(n, 4*time.Second, time.Since(began))
		require.Equal(n, runtime.StateRunning, r.Status.Latest("c").State)
		require.EqualValues(n, 1, r.Status.Latest("c").RestartCount)
		require.NoError(n, n.world.NoOverlap())
	})
}
