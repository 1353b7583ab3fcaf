// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// Events between the actions of a SyncPod.

// A container that ends during a SyncPod is started again by the same call. Progress reports its
// exit before.
func TestAnEndIsToldBeforeTheSameCallStartsItAgain(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 1}}}
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(900*time.Millisecond, 7), fake.Exit(900*time.Millisecond, 8), fake.Script{})
		var told []int32
		r := n.manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: pod, Progress: func(p runtime.Progress) {
			if c := p.Status.Latest("c"); c != nil && c.State == runtime.StateExited {
				told = append(told, c.ExitCode)
			}
		}})
		require.ErrorIs(n, r.Err(), runtime.ErrCrashLoopBackOff)
		require.Equal(n, 2, n.world.Total(fake.OpStartContainer))
		require.Equal(n, []int32{7, 8}, told)
	})
}

// A container that is stopped because of its probe completes by the stop, and is started again.
// Meanwhile its exit does not end the container.
func TestWhatIsBeingRestartedIsTold(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("a", "b"), slowHook, grace(30))
		pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		n.mustSync(pod)
		pod = pod.DeepCopy()
		pod.Spec.Containers[0].Image = "another"
		var told []string
		changed, wait := n.begin(runtime.SyncRequest{Pod: pod, Progress: func(p runtime.Progress) {
			told = append(told, fmt.Sprintf("a is %s, restarting %v", p.Status.Latest("a").State, p.Restarting))
		}})
		n.pass(time.Second)
		changed <- struct{}{}
		n.pass(time.Second)
		require.NoError(n, wait().Err())
		require.Contains(n, told, "a is running, restarting [a]")
		require.NotContains(n, strings.Join(told, "\n"), "b")
	})
}

// A container completed when it was stopped for its new spec, and an earlier agent made the next
// instance without starting it. The instance is made again. Meanwhile the container has not ended,
// although the newest run is the ended one.
func TestWhatIsMadeAnewIsBeingRestarted(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("a"))
		pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		n.mustSync(pod)
		pod = pod.DeepCopy()
		pod.Spec.Containers[0].Image = "another"
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer}, Times: 1, Err: errors.New("busy")})
		require.Error(n, n.sync(pod).Err())
		n.restart(runtime.Options{})
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpCreateContainer}, Times: 1, Latency: 2 * time.Second})
		var told []string
		changed, wait := n.begin(runtime.SyncRequest{Pod: pod, Progress: func(p runtime.Progress) {
			told = append(told, fmt.Sprintf("a is %s, restarting %v", p.Status.Latest("a").State, p.Restarting))
		}})
		n.pass(time.Second)
		changed <- struct{}{}
		n.pass(time.Second)
		require.NoError(n, wait().Err())
		require.Equal(n, []string{"a is exited, restarting [a]"}, slices.Compact(told))
	})
}

// Another client restarts a container during its preStop hook. Nothing starts beside that instance,
// which is stopped, too.
func TestNothingStartsBesideWhatAnotherRestartedMeanwhile(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(grace(30))
		pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 4}}}
		n.mustSync(pod)
		pod = pod.DeepCopy()
		pod.Spec.Containers[0].Image = "another"
		_, wait := n.begin(runtime.SyncRequest{Pod: pod})
		n.pass(time.Second)
		_, err := n.world.Replace(pod.UID, "c")
		require.NoError(n, err)
		require.NoError(n, wait().Err())
		status := n.mustSync(pod)
		require.NoError(n, n.world.NoOverlap())
		require.Equal(n, "another", status.Latest("c").Image)
		require.Len(n, status.Running(), 1)
	})
}

// A container in an unknown state that is never restarted is stopped once, and not started again.
// The other containers continue.
func TestWhatWasLostSightOfIsStoppedForGood(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("a", "b"))
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		n.mustSync(pod)
		require.NoError(n, n.world.LoseTrack(pod.UID, "a"))
		status := n.mustSync(pod)
		require.Equal(n, runtime.StateExited, status.Latest("a").State)
		require.Equal(n, runtime.StateRunning, status.Latest("b").State)
		require.Equal(n, 1, n.world.Count(fake.Target{Op: fake.OpStartContainer, Container: "a"}))
		require.Equal(n, 1, n.world.Count(fake.Target{Op: fake.OpStopContainer, Container: "a"}))
	})
}

// The records of a container that the caller knows to have ended for good were removed. The
// container does not run again, also not in a new sandbox.
func TestWhatIsKnownToHaveFinishedDoesNotRunAgain(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("a", "b"))
		pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		n.world.Script(fake.Target{Container: "b"}, fake.Script{TermCode: 1})
		n.mustSync(pod)
		require.NoError(n, n.world.Kill(pod.UID, "a", 0))
		require.NoError(n, n.world.LoseRecords(pod.UID, "a"))
		request := runtime.SyncRequest{Pod: pod, Finished: func(name string, _ *runtime.ContainerStatus) bool { return name == "a" }}
		require.Empty(n, n.manager.SyncPod(n.Context(), request).Plans)
		require.NoError(n, n.world.SandboxLosesIP(pod.UID))
		r := n.manager.SyncPod(n.Context(), request)
		require.Nil(n, r.Status.Latest("a"))
		require.Equal(n, runtime.StateRunning, r.Status.Latest("b").State)

		request.Finished = nil
		require.NotNil(n, n.manager.SyncPod(n.Context(), request).Status.Latest("a"), "what has no record never ran")
	})
}

// forgetful is a runtime that does not know its containers' states, not even after stopping them.
type forgetful struct{ *fake.Runtime }

func (f forgetful) PodStatus(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	status, err := f.Runtime.PodStatus(ctx, uid)
	if err == nil {
		for i := range status.Containers {
			status.Containers[i].State = runtime.StateUnknown
		}
	}
	return status, err
}

func TestARuntimeThatNeverKnowsIsNotAskedOverAndOver(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		n.mustSync(pod)
		generator, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: "/nonexistent/logs"})
		require.NoError(n, err)
		manager, err := runtime.New(runtime.Options{Runtime: forgetful{n.rt}, Generator: generator})
		require.NoError(n, err)
		for call := range 3 {
			require.NoError(n, manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: pod}).Err())
			require.Equal(n, call+1, n.world.Total(fake.OpStopContainer))
		}
		require.Equal(n, 1, n.world.Total(fake.OpStartContainer))
	})
}
