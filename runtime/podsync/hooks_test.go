// SPDX-License-Identifier: Apache-2.0

package podsync_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/runtime/podstatus"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

// recorder notes the calls of its hooks, in order.
type recorder struct {
	calls []string
	fails map[string]error // by call
}

func (r *recorder) note(call string) error {
	r.calls = append(r.calls, call)
	return r.fails[call]
}

func (r *recorder) hook(name string) podsync.Hook {
	return podsync.Hook{
		Around: func(context.Context, *runtime.SyncRequest) (func(), error) {
			return func() { _ = r.note("undo " + name) }, r.note("around " + name)
		},
		Synced:  func(context.Context, *v1.Pod, *runtime.Result) { _ = r.note("synced " + name) },
		Release: func(context.Context, *v1.Pod) error { return r.note("release " + name) },
	}
}

func (r *recorder) take() []string {
	calls := r.calls
	r.calls = nil
	return calls
}

func TestHooksEncloseASync(t *testing.T) {
	r := &recorder{fails: map[string]error{}}
	play(t, func(o *podsync.Options) { o.Hooks = []podsync.Hook{r.hook("a"), {}, r.hook("b")} }, func(n *node) {
		pod := newPod("web", v1.RestartPolicyAlways)
		r.fails["around b"] = errors.New("b is not there")
		_, again, err := n.pods.Sync(n.Context(), pod)
		require.ErrorContains(n, err, "b is not there")
		assert.NotZero(n, again)
		assert.Equal(n, []string{"around a", "around b", "undo a"}, r.take())
		assert.Zero(n, n.world.Count(starts))

		delete(r.fails, "around b")
		_, _, err = n.pods.Sync(n.Context(), pod)
		require.NoError(n, err)
		assert.Equal(n, []string{"around a", "around b", "synced a", "synced b", "undo b", "undo a"}, r.take())

		require.NoError(n, n.pods.Stop(n.Context(), pod.UID, pod, time.Second, func(*v1.PodStatus) {}))
		r.fails["release a"] = errors.New("busy")
		require.ErrorContains(n, n.pods.Release(n.Context(), pod), "busy")
		assert.Zero(n, n.ended)
		delete(r.fails, "release a")
		require.NoError(n, n.pods.Release(n.Context(), pod))
		assert.Equal(n, []string{"release b", "release a", "release b", "release a"}, r.take())
		assert.Equal(n, 1, n.ended)
	})
}

// TestAHookOverridesAStatus: a pod that a hook fails is over, and nothing is started.
func TestAHookOverridesAStatus(t *testing.T) {
	fail := podsync.Hook{Input: func(_ *v1.Pod, in *podstatus.Input) {
		if in.Stage == podstatus.StageSync {
			in.Override = &podstatus.Override{Reason: "Because", Message: "the test says so"}
		}
	}}
	play(t, func(o *podsync.Options) { o.Hooks = []podsync.Hook{fail} }, func(n *node) {
		over, _, err := n.pods.Sync(n.Context(), newPod("web", v1.RestartPolicyAlways))
		require.NoError(n, err)
		assert.True(n, over)
		assert.Equal(n, v1.PodFailed, n.status().Phase)
		assert.Equal(n, "Because", n.status().Reason)
		assert.Zero(n, n.world.Count(starts))
	})
}

// TestAStatusThatComesLater: the first answer of an API server may be older than the last status of
// the previous agent. A newer answer counts until this agent publishes another status.
func TestAStatusThatComesLater(t *testing.T) {
	play(t, nil, func(n *node) {
		pod := newPod("web", v1.RestartPolicyAlways)
		n.drive(pod, time.Minute)
		came := *pod
		came.Status = n.status()
		n.stop()
		n.statuses = nil
		n.start()

		assert.Empty(n, n.pods.All())
		n.drive(&came, time.Second)
		assert.Equal(n, []v1.PodStatus{came.Status}, n.statuses, "the first status is told, so that a status manager defends it")
		require.Len(n, n.pods.All(), 1)
		newer := came
		newer.Status.Message = "newer"
		assert.Equal(n, "newer", n.pods.Status(&newer).Message)

		require.NoError(n, n.world.Kill(pod.UID, "c", 1))
		n.drive(&came, 20*time.Second)
		assert.NotEmpty(n, n.statuses)
		own := n.pods.Status(&newer)
		assert.Empty(n, own.Message)
		assert.EqualValues(n, 1, own.ContainerStatuses[0].RestartCount)
		assert.Equal(n, own, n.pods.All()[0].Status)
	})
}

// TestASettledPodIsNotReadAgain: a runtime gives hints about everything that a sync has just done.
func TestASettledPodIsNotReadAgain(t *testing.T) {
	play(t, nil, func(n *node) {
		pod := newPod("web", v1.RestartPolicyAlways)
		n.drive(pod, time.Second)
		sync := func(pod *v1.Pod) (read int) {
			n.Helper()
			before := n.world.Total(fake.OpPodStatus)
			_, _, err := n.pods.Sync(n.Context(), pod)
			require.NoError(n, err)
			return n.world.Total(fake.OpPodStatus) - before
		}
		sync(pod)
		time.Sleep(time.Millisecond)
		assert.Zero(n, sync(pod), "nothing has happened since")
		edited := *pod
		assert.NotZero(n, sync(&edited), "the pod may be another")
		assert.Zero(n, sync(&edited))
		n.pods.Recheck(pod.UID)
		time.Sleep(time.Millisecond)
		assert.NotZero(n, sync(&edited), "something has changed")
		time.Sleep(time.Minute)
		assert.NotZero(n, sync(&edited), "a hint may have been lost")
	})
}

// TestCallsOfALife: a pod that has run to its end is not read again before its removal, and the removal
// lists no other pods. A runtime that hints at each change is asked neither about a new pod nor before
// the removal.
func TestCallsOfALife(t *testing.T) {
	for complete, want := range map[bool]int{false: 4, true: 2} {
		play(t, nil, func(n *node) {
			n.stop()
			n.complete = complete
			n.start()
			close(n.synced)
			n.world.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 0))
			synctest.Wait()
			lists := n.world.Total(fake.OpList)
			pod := newPod("job", v1.RestartPolicyNever)
			require.True(n, n.drive(pod, time.Minute))
			n.end(pod, nil)
			synctest.Wait()
			assert.Equal(n, v1.PodSucceeded, n.status().Phase)
			assert.Equal(n, lists, n.world.Total(fake.OpList))
			assert.Equal(n, want, n.world.Total(fake.OpPodStatus), "start and end; without hints at each change also first a look for records of an earlier agent, and the removal")
			assert.Equal(n, 1, n.world.Total(fake.OpStopSandbox))
			assert.Empty(n, n.world.Truth())
			time.Sleep(time.Hour)
			assert.Equal(n, want, n.world.Total(fake.OpPodStatus), "no listing finds a change")
		})
	}
}

// TestAnEndThatAnInterruptionHidIsTold: a call whose context ends reports nothing. The next call
// reports the end of the pod.
func TestAnEndThatAnInterruptionHidIsTold(t *testing.T) {
	ends, interrupt := false, context.CancelFunc(nil)
	hook := podsync.Hook{
		Synced: func(context.Context, *v1.Pod, *runtime.Result) {
			if interrupt != nil {
				ends = true
				interrupt()
			}
		},
		Input: func(_ *v1.Pod, in *podstatus.Input) {
			if ends {
				in.Override = &podstatus.Override{Reason: "Because", Message: "the test says so"}
			}
		},
	}
	play(t, func(o *podsync.Options) { o.Hooks = []podsync.Hook{hook} }, func(n *node) {
		pod := newPod("web", v1.RestartPolicyAlways)
		n.drive(pod, 10*time.Second)
		var ctx context.Context
		ctx, interrupt = context.WithCancel(n.Context())
		over, _, err := n.pods.Sync(ctx, pod)
		require.ErrorIs(n, err, context.Canceled)
		assert.False(n, over)
		time.Sleep(time.Millisecond)
		over, _, err = n.pods.Sync(n.Context(), pod)
		require.NoError(n, err)
		assert.True(n, over)
	})
}

// TestTheLogsOfAFormerLifeGo: a restart count that is read from the names of log files would go on.
func TestTheLogsOfAFormerLifeGo(t *testing.T) {
	play(t, nil, func(n *node) {
		pod := newPod("web", v1.RestartPolicyAlways)
		n.drive(pod, time.Second)
		n.end(pod, nil)
		log := filepath.Join(n.opts.Generator.LogRoot, "ns_web_"+string(pod.UID), "c", "7.log")
		require.NoError(n, os.MkdirAll(filepath.Dir(log), 0o700))
		require.NoError(n, os.WriteFile(log, nil, 0o600))
		n.drive(pod, time.Second)
		synctest.Wait()
		assert.NoFileExists(n, log)
		assert.Zero(n, n.status().ContainerStatuses[0].RestartCount)
	})
}
