// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// EnsureImage returns the ID of an image that the caller has confirmed.
func TestConfirmedImageHasItsID(t *testing.T) {
	inBubble(t, func(n *node) {
		r := &remover{registry: n.withImages(runtime.Options{})}
		id, err := n.manager.EnsureImage(n.Context(), runtime.ImageRequest{Pod: newPod(), Image: "tools", Found: r.Found})
		require.NoError(n, err)
		assert.Equal(n, "sha256:tools:latest", id)
	})
}

// The events about an image say why there is none.
func TestEventsOfImagesThatAreNotPulled(t *testing.T) {
	for reason, edit := range map[string]func(c *v1.Container){
		"ErrImageNeverPull": func(c *v1.Container) { c.ImagePullPolicy = v1.PullNever },
		"InspectFailed":     func(c *v1.Container) { c.Image = "Not/Valid Image" },
	} {
		inBubble(t, func(n *node) {
			n.withImages(runtime.Options{})
			pod := newPod()
			edit(&pod.Spec.Containers[0])
			require.Error(n, n.sync(pod).Err())
			assert.Contains(n, n.events.lines, "Warning "+reason+" spec.containers{c}")
		})
	}
}

// Each known cause of a failed pull is the reason of the container that waits.
func TestReasonsOfFailedPulls(t *testing.T) {
	for _, cause := range []error{runtime.ErrRegistryUnavailable, runtime.ErrSignatureValidationFailed} {
		inBubble(t, func(n *node) {
			r := n.withImages(runtime.Options{})
			r.failWith = []error{cause}
			require.ErrorIs(n, n.sync(newPod()).Err(), cause)
			var failures runtime.StartFailures
			failures.Apply(n.sync(newPod()).Steps)
			assert.Contains(n, failures["c"].Message, fmt.Sprintf("Back-off pulling image %q: %v: ", "img-c:latest", cause))
		})
	}
}

// A call that ends during a shared pull is told so, while the other call waits for the image. With credentials, too.
func TestOneOfTwoCallsForAnImageEnds(t *testing.T) {
	for _, keyring := range []runtime.Keyring{nil, func(context.Context, *v1.Pod, string) ([]runtime.ImageAuth, error) {
		return []runtime.ImageAuth{{Username: "u"}}, nil
	}} {
		inBubble(t, func(n *node) {
			n.withImages(runtime.Options{Keyring: keyring})
			other := newPod()
			other.UID, other.Name = "other", "other"
			second := make(chan error, 1)
			go func() {
				_, err := n.manager.EnsureImage(n.Context(), runtime.ImageRequest{Pod: other, Image: "tools"})
				second <- err
			}()
			cause := errors.New("the pod ends")
			ctx, cancel := context.WithCancelCause(n.Context())
			time.AfterFunc(time.Second/2, func() { cancel(cause) })
			_, err := n.manager.EnsureImage(ctx, runtime.ImageRequest{Pod: newPod(), Image: "tools"})
			require.Equal(n, cause, err)
			require.NoError(n, <-second)
			id, err := n.manager.EnsureImage(n.Context(), runtime.ImageRequest{Pod: other, Image: "more"})
			require.NoError(n, err)
			require.Equal(n, "sha256:more:latest", id)
			require.Contains(n, n.events.messages[len(n.events.messages)-1], " in 1s ")
		})
	}
}

// A pod that is known by its UID only has its name in errors, and a sandbox that was not stopped because the call has ended
// does not count as stopped.
func TestKillPodThatStopsNothing(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 0))
		n.mustSync(pod)
		n.pass(2 * time.Second)
		status, err := n.rt.PodStatus(n.Context(), pod.UID)
		require.NoError(n, err)
		cause := errors.New("the agent stops")
		ctx, cancel := context.WithCancelCause(n.Context())
		cancel(cause)
		r := n.manager.KillPod(ctx, runtime.KillRequest{UID: pod.UID, Pod: pod, Status: status})
		require.ErrorIs(n, r.Err(), cause)
		require.Nil(n, r.Status)

		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStopSandbox}, Times: 1, Err: errors.New("busy")})
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus}, Times: 1, Err: errors.New("away")})
		err = n.manager.KillPod(n.Context(), runtime.KillRequest{UID: pod.UID, Status: status}).Err()
		require.ErrorContains(n, err, "pod default/web: read its status: away")

		reads := n.world.Count(fake.Target{Op: fake.OpPodStatus})
		r = n.manager.KillPod(n.Context(), runtime.KillRequest{UID: pod.UID, Status: status})
		require.NoError(n, r.Err())
		require.False(n, r.Status.Sandboxes[0].Ready)
		require.Equal(n, reads, n.world.Count(fake.Target{Op: fake.OpPodStatus}), "the stopped sandbox is known")
	})
}

// A call with nothing to do reads nothing: the caller has the status.
func TestSyncWithNothingToDoReadsNothing(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		status := n.mustSync(pod)
		before := n.world.Count(fake.Target{Op: fake.OpPodStatus})
		r := n.manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: pod, Status: status})
		require.NoError(n, r.Err())
		assert.Equal(n, before, n.world.Count(fake.Target{Op: fake.OpPodStatus}))
	})
}

// A broken watch is logged when it begins to fail, and when it is over.
func TestTrackerLogsABrokenWatch(t *testing.T) {
	inBubble(t, func(n *node) {
		core, logs := observer.New(zap.DebugLevel)
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpWatch}, Times: 3, Err: errors.New("away")})
		tracker, err := runtime.NewTracker(runtime.TrackerOptions{Runtime: n.rt, Logger: zap.New(core)})
		require.NoError(n, err)
		n.mustSync(newPod())
		ctx, cancel := context.WithCancel(n.Context())
		done := make(chan error, 1)
		go func() { done <- tracker.Run(ctx) }()
		n.pass(time.Hour)
		cancel()
		require.NoError(n, <-done)
		var said []string
		for _, e := range logs.All() {
			said = append(said, e.Message)
		}
		assert.Equal(n, []string{"watching the runtime ended, trying again", "the runtime is watched again"}, said)
	})
}

// A tracker lacks a pod that the last listing did not have.
func TestTrackerLacksPods(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		n.mustSync(pod)
		tracker, err := runtime.NewTracker(runtime.TrackerOptions{Runtime: n.rt})
		require.NoError(n, err)
		assert.False(n, tracker.Lacks("unknown"), "nothing was listed yet")
		require.NoError(n, tracker.Relist(n.Context()))
		assert.False(n, tracker.Lacks(pod.UID))
		assert.True(n, tracker.Lacks("unknown"))
	})
}

// An instance that never ran, and cannot be removed, is the cause of the failed start.
func TestCauseOfAFailedReplacement(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer}, Times: 1, Err: errors.New("no such command")})
		require.ErrorIs(n, n.sync(pod).Err(), runtime.ErrRunContainer)
		n.pass(20 * time.Second)
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpRemoveContainer}, Times: 1, Err: errors.New("device busy")})
		err := n.sync(pod).Err()
		require.ErrorIs(n, err, runtime.ErrRemoveContainer)
		assert.ErrorContains(n, err, "RemoveContainer c: ")
		assert.ErrorContains(n, err, "device busy")
	})
}

// The failures and the ends of a pod are forgotten with the pod.
func TestFactsOfAGonePodAreForgotten(t *testing.T) {
	inBubble(t, func(n *node) {
		n.withImages(runtime.Options{})
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpRunSandbox}, Times: 1, Err: errors.New("broken")})
		pod := newPod()
		require.Error(n, n.sync(pod).Err())
		require.NotZero(n, n.manager.Kept())
		require.NoError(n, n.manager.RemovePod(n.Context(), pod.UID))
		assert.Zero(n, n.manager.Kept())

		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 0))
		n.mustSync(pod)
		n.pass(2 * time.Second)
		n.mustSync(pod) // sees the end
		require.NotZero(n, n.manager.Kept())
		require.NoError(n, n.manager.RemovePod(n.Context(), pod.UID))
		assert.Zero(n, n.manager.Kept())
	})
}

// hookUntil is a HookRunner whose hooks end well when their context ends.
type hookUntil struct{}

func (hookUntil) RunHook(ctx context.Context, _ runtime.HookCall) error {
	<-ctx.Done()
	return nil
}

// A hook that ends well has not failed, although its container has ended. The hooks of all containers that have ended are
// cancelled, and the lost record of another container is no end.
func TestHooksOfEndedContainersEnd(t *testing.T) {
	inBubble(t, func(n *node) {
		n.restart(runtime.Options{Hooks: hookUntil{}})
		pod := newPod(regular("a", "b"), grace(1))
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
		}
		for _, name := range []string{"a", "b"} {
			n.world.Script(fake.Target{Container: name}, fake.Exit(time.Second, 0))
		}
		changed, wait := n.begin(runtime.SyncRequest{Pod: pod})
		n.pass(2 * time.Second)
		select {
		case changed <- struct{}{}:
		default:
		}
		began := time.Now()
		wait()
		assert.Less(n, time.Since(began), 10*time.Second)
		assert.NotContains(n, n.events.lines, "Warning FailedPostStartHook spec.containers{a}")
		assert.NotContains(n, n.events.lines, "Warning FailedPostStartHook spec.containers{b}")
	})
}

// A look beside a slow hook passes over a container whose record is lost, and leaves sidecars to the next pass.
func TestLooksBesideASlowHook(t *testing.T) {
	inBubble(t, func(n *node) {
		hook := hookFunc(func(runtime.HookCall) error {
			time.Sleep(20 * time.Second)
			return nil
		})
		n.restart(runtime.Options{Hooks: hook})
		pod := newPod(sidecar("s"), regular("a"), grace(1))
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		pod.Spec.InitContainers[0].LivenessProbe = &v1.Probe{}
		pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
		n.world.Script(fake.Target{Container: "a"}, fake.Exit(time.Second, 0))
		probes := &deadFrom{}
		changed, wait := n.begin(runtime.SyncRequest{Pod: pod, Probes: probes})
		n.pass(2 * time.Second)
		require.NoError(n, n.rt.RemoveContainer(n.Context(), n.latest(pod, "a").ID))
		probes.ids.Store(n.latest(pod, "s").ID.String(), true)
		changed <- struct{}{}
		n.pass(5 * time.Second)
		assert.Zero(n, n.world.Count(fake.Target{Op: fake.OpStopContainer, Container: "s"}))
		wait()
	})
}

// All containers that are stopped in order to start again are told, and a container beside them that ends meanwhile is
// started again at once.
func TestRestartOfSeveralContainers(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("a", "b", "c"), grace(30))
		for _, name := range []string{"a", "b"} {
			n.world.Script(fake.Target{Container: name}, fake.Script{TermAfter: 20 * time.Second})
		}
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 1), fake.Script{})
		n.mustSync(pod)
		pod = pod.DeepCopy()
		pod.Spec.Containers[0].Image, pod.Spec.Containers[1].Image = "another", "another"
		var told [][]string
		changed, wait := n.begin(runtime.SyncRequest{Pod: pod, Progress: func(p runtime.Progress) { told = append(told, p.Restarting) }})
		n.pass(2 * time.Second)
		changed <- struct{}{}
		n.pass(5 * time.Second)
		assert.Equal(n, 2, n.started("c"))
		wait()
		assert.Contains(n, told, []string{"a", "b"})
	})
}

// A container that was stopped for its new spec is started, although the pod cannot be read in between.
func TestRestartWithoutAnotherLook(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		status := n.mustSync(pod)
		pod = pod.DeepCopy()
		pod.Spec.Containers[0].Image = "another"
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus}, Times: 1, Err: errors.New("away")})
		n.manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: pod, Status: status})
		assert.Equal(n, 2, n.started("c"))
	})
}

// blind is a runtime that cannot read a pod while left is 0.
type blind struct {
	runtime.Runtime
	left int
}

func (b *blind) PodStatus(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	if b.left--; b.left < 0 {
		return nil, errors.New("broken record")
	}
	return b.Runtime.PodStatus(ctx, uid)
}

// A container in an unknown state is not removed if its record cannot be read.
func TestGarbageCollectStopsNothingThatItCannotRead(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		rt := &blind{n.rt, 1000}
		n.over(rt)
		pod := newPod()
		n.mustSync(pod)
		require.NoError(n, n.world.LoseTrack(pod.UID, "c"))
		n.fates[pod.UID] = runtime.PodGone
		rt.left = 0
		require.ErrorContains(n, n.collect(), "read its status: broken record")
		require.Zero(n, n.world.Count(fake.Target{Op: fake.OpRemoveContainer}))
		rt.left = 1000
		require.NoError(n, n.collect())
		require.Equal(n, 1, n.world.Count(fake.Target{Op: fake.OpStopContainer}))
	})
}

// What the Manager remembers of a pod that is gone stays until all of the pod has gone: a running container, or logs that
// could not be removed, keep it.
func TestGarbageCollectForgetsNothingTooEarly(t *testing.T) {
	for name, hinder := range map[string]func(n *gcNode, pod *v1.Pod) error{
		"a container runs": func(n *gcNode, pod *v1.Pod) error {
			n.over(overtaken{n.rt})
			n.purge(pod)
			return nil
		},
		"the pod lives": func(n *gcNode, pod *v1.Pod) error {
			n.purge(pod)
			n.fates[pod.UID] = runtime.PodLives
			return nil
		},
		"its logs stay": func(n *gcNode, pod *v1.Pod) error {
			n.purge(pod)
			_, _ = n.kill(pod)
			n.inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus, UID: pod.UID}, Times: 1, Err: errors.New("no answer")})
			return errors.New("no answer")
		},
	} {
		t.Run(name, func(t *testing.T) {
			gcInBubble(t, func(n *gcNode) {
				pod := newPod(initial("i"), regular("a"))
				n.fates[pod.UID] = runtime.PodGone
				want := hinder(n, pod)
				if err := n.collect(); want != nil {
					require.ErrorContains(n, err, want.Error())
				} else {
					require.NoError(n, err)
				}
				require.EqualValues(n, 1, n.mustSync(pod).Latest("i").RestartCount, "the count goes on")
			})
		})
	}
}

// purge makes the manager remember an init container: its record is removed for a new sandbox, and it does not start again.
func (n *gcNode) purge(pod *v1.Pod) {
	n.world.Script(fake.Target{Container: "i"}, fake.Exit(fake.AtOnce, 0))
	n.mustSync(pod)
	n.world.Reboot()
	n.inject(fake.Fault{On: fake.Target{Op: fake.OpCreateContainer, Container: "i"}, Times: 1, Err: errors.New("no")})
	require.Error(n, n.sync(pod).Err())
}
