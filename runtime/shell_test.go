// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// starts syncs a pod for d, and returns the times of the starts of a container.
func (n *node) starts(req runtime.SyncRequest, name string, d time.Duration) (at []time.Duration) {
	n.Helper()
	for began := time.Now(); time.Since(began) < d; {
		before := n.started(name)
		r := n.manager.SyncPod(n.Context(), req)
		if n.started(name) > before {
			at = append(at, time.Since(began).Round(time.Second))
		}
		if again, ok := r.RetryAt(); ok && again.After(time.Now()) {
			time.Sleep(time.Until(again))
			continue
		}
		n.pass(time.Second)
	}
	return at
}

// dead are probes that find every container dead.
type dead struct{ runtime.Probes }

func (dead) Alive(string) (bool, bool)   { return false, true }
func (dead) Started(string) (bool, bool) { return true, true }

// A container that is killed again and again because of its liveness probe backs off like a
// container that ends by itself.
func TestKilledContainersBackOff(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(grace(1))
		pod.Spec.Containers[0].LivenessProbe = &v1.Probe{}
		at := n.starts(runtime.SyncRequest{Pod: pod, Probes: dead{}}, "c", 3*time.Minute)
		require.GreaterOrEqual(n, len(at), 5)
		var gaps []time.Duration
		for i := 1; i < 5; i++ {
			gaps = append(gaps, at[i]-at[i-1])
		}
		for i, least := range []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
			assert.GreaterOrEqual(n, gaps[i], least, "%v", gaps)
		}
	})
}

// An ended instance is the last state of its container. It stays while a successor that never ran
// is replaced.
func TestLastStateSurvivesAFailedStart(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 7), fake.Script{})
		n.mustSync(pod)
		n.pass(2 * time.Second)
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer}, Times: 1, Err: errors.New("no such command")})
		require.ErrorIs(n, n.sync(pod).Err(), runtime.ErrRunContainer)
		n.starts(runtime.SyncRequest{Pod: pod}, "c", time.Minute)
		status := n.mustSync(pod)
		require.Len(n, status.Containers, 2)
		assert.Equal(n, runtime.StateRunning, status.Containers[0].State)
		assert.EqualValues(n, 7, status.Containers[1].ExitCode)
	})
}

// A container that is never restarted, and whose spec has changed, runs in its new form, also if
// the first start of the new form fails.
func TestChangedContainerStartsAfterAFailedStart(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := neverAgain()
		n.mustSync(pod)
		changed := pod.DeepCopy()
		changed.Spec.Containers[0].Image = "img-once:2"
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer, Container: "once"}, Times: 1, Err: errors.New("no such command")})
		for range 3 {
			n.sync(changed)
			n.pass(10 * time.Second)
		}
		require.Equal(n, runtime.StateRunning, n.mustSync(changed).Latest("once").State)
	})
}

// A container that could not be stopped keeps its sandbox: the pod never has two.
func TestNoNewSandboxBesideOneThatIsNotStopped(t *testing.T) {
	for _, op := range []fake.Op{fake.OpStopContainer, fake.OpStopSandbox} {
		inBubble(t, func(n *node) {
			pod := newPod()
			n.mustSync(pod)
			hosted := pod.DeepCopy()
			hosted.Spec.HostNetwork = true
			n.inject(fake.Fault{On: fake.Target{Op: op}, Times: 1, Err: errors.New("busy")})
			require.ErrorContains(n, n.sync(hosted).Err(), "busy")
			assert.Equal(n, 1, n.world.Count(fake.Target{Op: fake.OpRunSandbox}))
			n.mustSync(hosted)
			assert.Equal(n, 2, n.world.Count(fake.Target{Op: fake.OpRunSandbox}))
		})
	}
}

// refusing is a Generator that makes no sandbox.
type refusing struct{ runtime.Generator }

func (refusing) Sandbox(context.Context, *v1.Pod, uint32) (runtime.SandboxSpec, error) {
	return runtime.SandboxSpec{}, errors.New("no such DNS")
}

func TestSandboxThatCannotBeGenerated(t *testing.T) {
	inBubble(t, func(n *node) {
		generator, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: "/nonexistent/logs"})
		require.NoError(n, err)
		n.manager, err = runtime.New(runtime.Options{Runtime: n.rt, Generator: refusing{generator}, Events: n.events})
		require.NoError(n, err)
		r := n.sync(newPod())
		require.ErrorContains(n, r.Err(), "no such DNS")
		assert.Zero(n, n.world.Count(fake.Target{Op: fake.OpRunSandbox}))
		assert.Equal(n, []string{"Warning FailedCreatePodSandBox"}, n.events.lines)
	})
}

// In a new sandbox init starts over, in one pass, and its restart counts go on from the newest
// instance.
func TestRestartCountsOfInitGoOnInANewSandbox(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(initial("i"), regular("a"))
		n.world.Script(fake.Target{Container: "i"}, fake.Exit(time.Second, 1), fake.Exit(time.Second, 0), fake.Exit(time.Second, 0))
		n.mustSync(pod)
		n.pass(2 * time.Second)
		n.mustSync(pod)
		n.pass(2 * time.Second)
		status := n.mustSync(pod)
		require.Equal(n, runtime.StateRunning, status.Latest("a").State)
		require.EqualValues(n, 1, status.Latest("i").RestartCount)
		n.world.Reboot()
		r := n.sync(pod)
		require.NoError(n, r.Err())
		require.Len(n, r.Plans, 1)
		assert.EqualValues(n, 2, r.Status.Latest("i").RestartCount)
	})
}

// Progress before a further pass has the steps of the passes before.
func TestProgressHasEarlierSteps(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(sidecar("s"), regular("a"))
		var done []int
		r := n.manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: pod, Progress: func(p runtime.Progress) { done = append(done, len(p.Done)) }})
		require.NoError(n, r.Err())
		require.Greater(n, len(r.Plans), 1)
		require.NotEmpty(n, done)
		assert.NotZero(n, done[len(done)-1])
		assert.Less(n, done[len(done)-1], len(r.Steps))
	})
}

// With MaxConcurrentStarts 1, one container starts at a time.
func TestStartsOneAfterTheOther(t *testing.T) {
	inBubble(t, func(n *node) {
		n.restart(runtime.Options{MaxConcurrentStarts: 1})
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer}, Latency: 500 * time.Millisecond})
		began := time.Now()
		require.NoError(n, n.sync(newPod(regular("a", "b", "c", "d"))).Err())
		assert.GreaterOrEqual(n, time.Since(began), 2*time.Second)
	})
}

// An error of the keyring counts if the keyring has no credentials.
func TestKeyringThatFails(t *testing.T) {
	broken := errors.New("no secret")
	for name, tc := range map[string]struct {
		auths []runtime.ImageAuth
		err   error
		pulls []string
	}{
		"without credentials": {nil, broken, nil},
		"with some":           {[]runtime.ImageAuth{{Username: "bob"}}, nil, []string{"img-c:latest bob"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(n *node) {
				r := n.withImages(runtime.Options{Keyring: func(context.Context, *v1.Pod, string) ([]runtime.ImageAuth, error) {
					return tc.auths, broken
				}})
				result := n.sync(newPod())
				if tc.err != nil {
					require.ErrorContains(n, result.Err(), "find credentials: no secret")
				} else {
					require.NoError(n, result.Err())
				}
				assert.Equal(n, tc.pulls, r.pulls)
			})
		})
	}
}

// The first listing marks every pod, also a pod that was reported before.
func TestObservedBeforeTheFirstListing(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		status := n.mustSync(pod)
		tracker, err := runtime.NewTracker(runtime.TrackerOptions{Runtime: n.rt})
		require.NoError(n, err)
		tracker.Observed(status)
		assert.False(n, tracker.Lacks(pod.UID))
		require.NoError(n, tracker.Relist(n.Context()))
		assert.Equal(n, pod.UID, tracker.Take()[0])
	})
}
