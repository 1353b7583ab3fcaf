// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// One container's slow start blocks no sibling (kubernetes#37805, #81450).
func TestUpstream37805ASlowStartBlocksNoSibling(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("slow", "quick"))
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer, Container: "slow"}, Latency: time.Minute})
		done := make(chan struct{})
		go func() { defer close(done); n.sync(pod) }()
		time.Sleep(time.Second)
		status, err := n.rt.PodStatus(n.Context(), pod.UID)
		require.NoError(n, err)
		require.Equal(n, runtime.StateRunning, status.Active("quick").State)
		require.Equal(n, runtime.StateCreated, status.Active("slow").State)
		<-done
	})
}

// A hook that waits for a sibling does not keep the sibling from starting
// (kubernetes#37805).
func TestUpstream37805AHookMayWaitForASibling(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("first", "second"))
		pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 30}}}
		began := time.Now()
		require.NoError(n, n.sync(pod).Err())
		require.Equal(n, 30*time.Second, time.Since(began), "the pass waits for the hook")
		status, err := n.rt.PodStatus(n.Context(), pod.UID)
		require.NoError(n, err)
		require.Less(n, status.Active("second").StartedAt.Sub(began), time.Second, "and the sibling does not")
	})
}

// A failed purge of init records ends the pass: they would count as done in the
// new sandbox (kubernetes#137710).
func TestUpstream137710AFailedPurgeEndsThePass(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(initial("i"), regular("a"))
		n.world.Script(fake.Target{Container: "i"}, fake.Exit(fake.AtOnce, 0))
		n.mustSync(pod)
		n.world.Reboot()
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpRemoveContainer, Container: "i"}, Times: 1, Err: errors.New("busy")})
		r := n.sync(pod)
		require.ErrorIs(n, r.Err(), runtime.ErrRemoveContainer)
		require.Equal(n, 1, n.world.Total(fake.OpRunSandbox), "no new sandbox yet")
		status := n.mustSync(pod)
		require.Equal(n, runtime.StateRunning, status.Active("a").State)
		require.Equal(n, 2, n.world.Count(fake.Target{Op: fake.OpStartContainer, Container: "i"}), "init ran again")
		require.EqualValues(n, 1, status.Latest("i").RestartCount, "the count goes on although the record is gone")
	})
}

func TestAPlainInitContainerThatCannotStartHoldsTheRest(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(sidecar("s"), initial("i"), regular("a"))
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpCreateContainer, Container: "s"}, Times: 1, Err: errors.New("no")})
		require.ErrorIs(n, n.sync(pod).Err(), runtime.ErrCreateContainer)
		require.Zero(n, n.world.Count(fake.Target{Op: fake.OpStartContainer, Container: "a"}))
	})
}

func TestAConfigErrorHasItsOwnReasonAndStopsNothingElse(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("bad", "good"))
		pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "X", ValueFrom: &v1.EnvVarSource{
			SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "s"}, Key: "k"},
		}}}
		r := n.sync(pod)
		require.ErrorIs(n, r.Err(), runtime.ErrCreateContainerConfig)
		require.Equal(n, runtime.StateRunning, r.Status.Active("good").State)
		var failures runtime.StartFailures
		failures.Apply(r.Steps)
		require.Equal(n, "CreateContainerConfigError", failures["bad"].Reason)
		require.NotContains(n, failures, "good")
		at, again := r.RetryAt()
		require.True(n, again)
		require.Equal(n, time.Second, time.Until(at))
		require.True(n, r.Failed())
	})
}

func TestConcurrentStartsAreBoundedOverAllPods(t *testing.T) {
	inBubble(t, func(n *node) {
		n.restart(runtime.Options{MaxConcurrentStarts: 2})
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer}, Latency: time.Second})
		began := time.Now()
		done := make(chan struct{})
		for _, uid := range []string{"p1", "p2", "p3"} {
			go func() {
				pod := newPod(regular("a", "b"))
				pod.UID, pod.Name = types.UID(uid), uid
				n.manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: pod})
				done <- struct{}{}
			}()
		}
		for range 3 {
			<-done
		}
		require.Equal(n, 3*time.Second, time.Since(began), "six starts of a second each, two at a time")
	})
}

// RestartAllContainers: the sandbox stays, logs and counts go on, and the loop
// is throttled, which the kubelet's is not (contract 2.6).
func TestRestartAllGoesOnCountingAndBacksOff(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("worker"))
		pod.Spec.Containers = append(pod.Spec.Containers, restartsAll("watcher"))
		n.world.Script(fake.Target{Container: "watcher"}, fake.Exit(time.Second, 42))
		require.NoError(n, n.sync(pod).Err())
		n.pass(time.Second)
		require.NoError(n, n.sync(pod).Err(), "the first restart is at once")
		for round := 2; round <= 4; round++ {
			n.pass(time.Second) // the watcher ends with 42
			r := n.sync(pod)
			require.Empty(n, r.Status.Containers, "all instances are gone")
			at, waiting := r.RetryAt()
			require.True(n, waiting, "and their successors wait")
			require.Equal(n, time.Duration(10<<(round-2))*time.Second, time.Until(at).Round(time.Second))
			time.Sleep(time.Until(at))
			r = n.sync(pod)
			require.NoError(n, r.Err())
			require.EqualValues(n, round, r.Status.Latest("watcher").RestartCount)
			require.EqualValues(n, round, r.Status.Latest("worker").RestartCount)
		}
		require.Equal(n, 1, n.world.Total(fake.OpRunSandbox), "the sandbox stays")
	})
}

func TestALostReplyMakesNoSecondInstance(t *testing.T) {
	for _, op := range []fake.Op{fake.OpRunSandbox, fake.OpCreateContainer, fake.OpStartContainer} {
		t.Run(string(op), func(t *testing.T) {
			inBubble(t, func(n *node) {
				pod := newPod()
				n.inject(fake.Fault{On: fake.Target{Op: op}, Times: 1, DoneButReplyLost: true})
				require.Error(n, n.sync(pod).Err())
				synctest.Wait()
				status := n.mustSync(pod)
				require.Len(n, status.Running(), 1)
				require.NoError(n, n.world.NoOverlap())
			})
		})
	}
}

// Hanging calls release their slots, so that other pods start.
func TestHungStartsHoldUpNobodyForLong(t *testing.T) {
	inBubble(t, func(n *node) {
		n.restart(runtime.Options{MaxConcurrentStarts: 2})
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpCreateContainer, UID: "uid-stuck"}, HangUntilCtx: true})
		stuck := newPod(regular("a", "b", "c"))
		stuck.UID, stuck.Name = "uid-stuck", "stuck"
		ctx, cancel := context.WithCancel(n.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			n.manager.SyncPod(ctx, runtime.SyncRequest{Pod: stuck})
		}()
		n.pass(time.Second)
		began := time.Now()
		require.NoError(n, n.sync(newPod()).Err())
		require.LessOrEqual(n, time.Since(began), 10*time.Second)
		cancel()
		<-done
	})
}

// A container in a replaced sandbox may complete because of its stop. The pod has then ended: no
// new sandbox is made, and no init container runs again.
func TestAPodThatCompletesWhileItsSandboxIsReplacedIsOver(t *testing.T) {
	for name, of := range map[string]struct {
		code      int32 // with which the container answers SIGTERM
		sandboxes int   // are made in all
	}{"completed": {0, 1}, "failed": {3, 2}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(n *node) {
				pod := newPod(initial("i"), regular("a"))
				pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
				n.world.Script(fake.Target{Container: "i"}, fake.Exit(fake.AtOnce, 0))
				n.world.Script(fake.Target{Container: "a"}, fake.Script{TermCode: of.code})
				n.mustSync(pod)
				n.mustSync(pod)
				require.NoError(n, n.world.SandboxLosesIP(pod.UID))
				n.mustSync(pod)
				require.Equal(n, of.sandboxes, n.world.Total(fake.OpRunSandbox))
				status := n.mustSync(pod)
				require.Equal(n, of.sandboxes == 2, status.Current() != nil)
			})
		})
	}
}

// The records of init containers, including sidecars, are removed with their sandbox. Progress
// reports their exits before, also the exit of a sidecar that was just stopped.
func TestTheEndsOfInitContainersAreToldBeforeTheirRecordsGo(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(sidecar("s"), regular("a"))
		n.world.Script(fake.Target{Container: "s"}, fake.Script{TermCode: 5})
		n.mustSync(pod)
		require.NoError(n, n.world.SandboxLosesIP(pod.UID))
		var told []int32
		r := n.manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: pod, Progress: func(p runtime.Progress) {
			if s := p.Status.Latest("s"); s != nil && s.State == runtime.StateExited {
				told = append(told, s.ExitCode)
			}
		}})
		require.NoError(n, r.Err())
		require.Equal(n, []int32{5}, told)
	})
}
