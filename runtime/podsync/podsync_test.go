// SPDX-License-Identifier: Apache-2.0

package podsync_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

var starts = fake.Target{Op: fake.OpStartContainer}

func TestAPodRunsAndEnds(t *testing.T) {
	play(t, nil, func(n *node) {
		pod := newPod("web", v1.RestartPolicyAlways)
		require.False(n, n.drive(pod, time.Minute))
		running := n.status()
		assert.Equal(n, v1.PodRunning, running.Phase)
		assert.True(n, podsync.Ready(&running))
		assert.Equal(n, running, n.pods.Status(pod))
		assert.Equal(n, 1, n.world.Count(starts))

		n.end(pod, func(status *v1.PodStatus) { status.Message = "stopped by the test" })
		assert.Equal(n, "stopped by the test", n.status().Message)
		assert.NotNil(n, n.status().ContainerStatuses[0].State.Terminated)
		assert.Equal(n, 1, n.ended)
		close(n.synced)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Empty(n, n.world.Truth(), "what it left is removed")
		assert.Empty(n, n.pods.Status(pod).Phase, "and nothing is remembered of it")
	})
}

// TestACrashLoopIsNoError: for a container in back-off the sync returns the time of the next call,
// and the status gives the reason.
func TestACrashLoopIsNoError(t *testing.T) {
	play(t, nil, func(n *node) {
		n.world.Script(fake.Target{Container: "c"}, fake.Script{ExitAfter: time.Second, ExitCode: 3})
		pod := newPod("web", v1.RestartPolicyAlways)
		n.drive(pod, 70*time.Second)
		_, again, err := n.pods.Sync(n.Context(), pod)
		require.NoError(n, err)
		assert.True(n, again.After(time.Now()))
		c := n.status().ContainerStatuses[0]
		require.NotNil(n, c.State.Waiting)
		assert.Equal(n, "CrashLoopBackOff", c.State.Waiting.Reason)
		assert.Equal(n, 4, n.world.Count(starts), "after 0, 10, 20 and 40 s")
	})
}

// TestWhatCannotStartIsTriedAgain: the reason is in the status, and the pauses grow.
func TestWhatCannotStartIsTriedAgain(t *testing.T) {
	play(t, nil, func(n *node) {
		n.world.Script(fake.Target{Container: "c"}, fake.Script{StartErr: errors.New("no such file: /nonexist")})
		pod := newPod("web", v1.RestartPolicyAlways)
		n.drive(pod, 5*time.Minute)
		said := false
		for _, status := range n.statuses {
			w := status.ContainerStatuses[0].State.Waiting
			said = said || w != nil && w.Reason == "RunContainerError" && w.Message == "no such file: /nonexist"
		}
		assert.True(n, said)
		assert.Equal(n, "CrashLoopBackOff", n.status().ContainerStatuses[0].State.Waiting.Reason)
		tries := n.world.Count(starts)
		assert.Greater(n, tries, 4)
		assert.Less(n, tries, 60)
		n.world.Script(fake.Target{Container: "c"}, fake.Script{})
		n.drive(pod, 10*time.Minute)
		assert.Equal(n, v1.PodRunning, n.status().Phase)
	})
}

// TestAPodThatCannotStartFails: a program that cannot be executed ends its container, as an exit does.
func TestAPodThatCannotStartFails(t *testing.T) {
	for policy, want := range map[v1.RestartPolicy]struct {
		phase  v1.PodPhase
		starts int
	}{
		v1.RestartPolicyNever:     {v1.PodFailed, 1},
		v1.RestartPolicyOnFailure: {v1.PodRunning, 4},
		v1.RestartPolicyAlways:    {v1.PodRunning, 4},
	} {
		t.Run(string(policy), func(t *testing.T) {
			play(t, nil, func(n *node) {
				n.world.Script(fake.Target{Container: "c"}, fake.Script{StartErr: errors.New("no such file: /nonexist")})
				pod := newPod("web", policy)
				n.drive(pod, 65*time.Second)
				assert.Equal(n, want.phase, n.status().Phase)
				assert.Equal(n, want.starts, n.world.Count(starts), "with the back-off of a crash loop")
				c := n.status().ContainerStatuses[0]
				assert.EqualValues(n, want.starts-1, c.RestartCount)
				ended := c.State.Terminated
				if policy != v1.RestartPolicyNever {
					require.NotNil(n, c.State.Waiting)
					assert.Equal(n, "CrashLoopBackOff", c.State.Waiting.Reason)
					ended = c.LastTerminationState.Terminated
				}
				require.NotNil(n, ended)
				assert.EqualValues(n, 128, ended.ExitCode)
				assert.Equal(n, []string{"StartError", "no such file: /nonexist"}, []string{ended.Reason, ended.Message})
				assert.Equal(n, time.Unix(0, 0), ended.StartedAt.Time)
			})
		})
	}
}

// TestEachFaultIsTriedAgain injects each kind of fault into each call. There is always a next step (see drive), and when
// the fault is over the pod runs, once.
func TestEachFaultIsTriedAgain(t *testing.T) {
	kinds := map[string]fake.Fault{
		"error":      {Err: errors.New("no luck")},
		"reply lost": {DoneButReplyLost: true},
		"slow":       {Latency: 20 * time.Second},
		"stale":      {Lie: fake.Stale},
	}
	ops := []fake.Op{
		fake.OpList, fake.OpPodStatus, fake.OpRunSandbox, fake.OpCreateContainer, fake.OpStartContainer, fake.OpStopContainer,
		fake.OpStopSandbox, fake.OpRemoveContainer, fake.OpRemoveSandbox,
	}
	for name, fault := range kinds {
		for _, op := range ops {
			if name == "stale" && op != fake.OpList { // a PodStatus that lies breaks the contract of runtime.Runtime
				continue
			}
			t.Run(fmt.Sprintf("%s %s", name, op), func(t *testing.T) {
				play(t, nil, func(n *node) {
					pod := newPod("web", v1.RestartPolicyAlways)
					fault.On.Op, fault.For = op, 2*time.Minute
					_, err := n.world.Inject(fault)
					require.NoError(n, err)
					n.drive(pod, 5*time.Minute)
					assert.Equal(n, v1.PodRunning, n.status().Phase)
					require.NoError(n, n.world.NoOverlap())
					require.NoError(n, n.world.Kill(pod.UID, "c", 1))
					n.drive(pod, 10*time.Minute)
					assert.Equal(n, int32(1), n.status().ContainerStatuses[0].RestartCount)
					n.end(pod, nil)
				})
			})
		}
	}
}

// TestAReturningUIDBeginsAnew: a container that ended in an earlier life does not count in the new
// life.
func TestAReturningUIDBeginsAnew(t *testing.T) {
	play(t, nil, func(n *node) {
		n.world.Script(fake.Target{Container: "c"}, fake.Script{ExitAfter: time.Second})
		pod := newPod("job", v1.RestartPolicyNever)
		require.True(n, n.drive(pod, time.Minute))
		n.end(pod, nil)
		require.True(n, n.drive(pod, time.Minute))
		assert.Equal(n, 2, n.world.Count(starts))
		assert.Zero(n, n.status().ContainerStatuses[0].RestartCount)
	})
}

// TestAReturningUIDIsStoppedBeforeItsFirstSync: the status is that of a pod that never ran, and stays after
// the removal of the earlier life's remains.
func TestAReturningUIDIsStoppedBeforeItsFirstSync(t *testing.T) {
	play(t, nil, func(n *node) {
		n.world.Script(fake.Target{Container: "c"}, fake.Script{ExitAfter: time.Second, ExitCode: 1})
		pod := newPod("job", v1.RestartPolicyNever)
		require.True(n, n.drive(pod, time.Minute))
		n.end(pod, nil)
		n.mu.Lock()
		n.known[pod.UID] = pod
		n.mu.Unlock()
		edit := func(s *v1.PodStatus) { s.Reason = "Refused" }
		require.NoError(n, n.pods.Stop(n.Context(), pod.UID, pod, time.Second, edit))
		n.mu.Lock()
		delete(n.known, pod.UID) // its content may be removed, as that of an evicted pod
		n.mu.Unlock()
		time.Sleep(time.Hour)
		status := n.pods.Status(pod)
		assert.Equal(n, "Refused", status.Reason)
		assert.Nil(n, status.ContainerStatuses[0].State.Terminated)
	})
}

// TestALostRecordDoesNotRunAgain: that a container has finished is remembered, whatever the runtime forgets.
func TestALostRecordDoesNotRunAgain(t *testing.T) {
	play(t, nil, func(n *node) {
		n.world.Script(fake.Target{Container: "c"}, fake.Script{ExitAfter: time.Second})
		n.world.Script(fake.Target{Container: "d"}, fake.Script{})
		pod := newPod("job", v1.RestartPolicyNever)
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "d", Image: "i"})
		n.drive(pod, time.Minute)
		require.NoError(n, n.world.LoseRecords(pod.UID, "c"))
		n.drive(pod, time.Minute)
		assert.Equal(n, 2, n.world.Count(starts), "c and d, once each")
	})
}

// TestTheNextAgentAdoptsWhatRuns: nothing is started again, and the status goes on.
func TestTheNextAgentAdoptsWhatRuns(t *testing.T) {
	play(t, nil, func(n *node) {
		pod := newPod("web", v1.RestartPolicyAlways)
		n.drive(pod, time.Minute)
		n.stop()
		n.start()
		n.drive(pod, time.Minute)
		assert.Equal(n, 1, n.world.Count(starts))
		assert.Equal(n, v1.PodRunning, n.status().Phase)
	})
}

// TestANamesakeEndsFirst: a static pod whose manifest changed while no agent ran starts after the
// end of the earlier pod.
func TestANamesakeEndsFirst(t *testing.T) {
	play(t, nil, func(n *node) {
		n.world.Script(fake.Target{UID: "uid-web", Container: "c"}, fake.Script{TermAfter: 3 * time.Second})
		n.drive(newPod("web", v1.RestartPolicyAlways), time.Minute)
		n.stop()
		n.known = map[types.UID]*v1.Pod{}
		n.start()
		pod := newPod("web", v1.RestartPolicyAlways)
		pod.UID = "another"
		began := time.Now()
		n.drive(pod, time.Minute)
		assert.Equal(n, []types.UID{"uid-web"}, n.orphans[:1])
		assert.Equal(n, v1.PodRunning, n.status().Phase)
		started := n.status().ContainerStatuses[0].State.Running.StartedAt.Sub(began)
		assert.InDelta(n, 3*time.Second, started, float64(2*time.Second), "it has waited for the end of the other, no longer")
		require.NoError(n, n.world.Before(fake.Target{UID: "uid-web", Op: fake.OpStopContainer}, fake.Target{UID: "another", Op: fake.OpStartContainer}))
	})
}

// TestOrphansWaitForTheSources: a pod that only the runtime knows is stopped and removed after
// every source has reported.
func TestOrphansWaitForTheSources(t *testing.T) {
	play(t, nil, func(n *node) {
		n.drive(newPod("old", v1.RestartPolicyAlways), time.Minute)
		n.stop()
		n.known = map[types.UID]*v1.Pod{}
		n.start()
		time.Sleep(10 * time.Minute)
		assert.Empty(n, n.orphans)
		close(n.synced)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Contains(n, n.orphans, types.UID("uid-old"))
		assert.Empty(n, n.world.Truth())
	})
}

// TestACallEndsWithItsContext: a hung runtime holds up neither the call nor another pod.
func TestACallEndsWithItsContext(t *testing.T) {
	play(t, nil, func(n *node) {
		hung := newPod("hung", v1.RestartPolicyAlways)
		_, err := n.world.Inject(fake.Fault{On: fake.Target{UID: hung.UID}, HangUntilCtx: true})
		require.NoError(n, err)
		cause := errors.New("the worker has something better to do")
		ctx, cancel := context.WithTimeoutCause(n.Context(), time.Minute, cause)
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, _, err := n.pods.Sync(ctx, hung)
			ended <- err
		}()
		n.drive(newPod("web", v1.RestartPolicyAlways), 30*time.Second)
		assert.Equal(n, v1.PodRunning, n.status().Phase)
		require.ErrorIs(n, <-ended, cause)
	})
}

func TestNewNamesTheBadField(t *testing.T) {
	_, err := podsync.New(podsync.Options{})
	require.ErrorContains(t, err, "Options.Runtime")
	rt, err := fake.New(fake.Options{})
	require.NoError(t, err)
	_, err = podsync.New(podsync.Options{Runtime: rt})
	require.ErrorContains(t, err, "LogRoot")
	_, err = podsync.New(podsync.Options{Runtime: rt, Volumes: &volumes{}, Generator: runtime.DefaultGeneratorOptions{
		LogRoot: "/logs", Groups: func(*v1.Pod) []int64 { return nil },
	}})
	require.ErrorContains(t, err, "Options.Generator has Volumes or Groups")
}

// The pauses after failed calls double up to 10 s, and begin anew after a call that succeeds.
func TestFailedCallsPauseLongerAndLonger(t *testing.T) {
	plain := func(o *podsync.Options) { o.Jitter = func(d time.Duration) time.Duration { return d } }
	play(t, plain, func(n *node) {
		pod := newPod("web", v1.RestartPolicyAlways)
		for range 2 {
			down, err := n.world.Inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus}, Err: errors.New("no answer")})
			require.NoError(n, err)
			var pauses []time.Duration
			for range 6 {
				_, again, err := n.pods.Sync(n.Context(), pod)
				require.ErrorIs(n, err, podsync.ErrRead)
				pauses = append(pauses, time.Until(again)/time.Second)
			}
			assert.Equal(n, []time.Duration{1, 2, 4, 8, 10, 10}, pauses)
			down.Clear()
			n.drive(pod, time.Minute)
		}
	})
}
