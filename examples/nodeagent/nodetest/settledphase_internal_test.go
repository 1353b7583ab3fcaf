// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// inSandbox returns the runtime's record of a pod with containers in its only sandbox.
func inSandbox(containers ...runtime.ContainerStatus) *runtime.PodStatus {
	truth := &runtime.PodStatus{Sandboxes: []runtime.SandboxStatus{{ID: "s", Ready: true}}}
	for _, c := range containers {
		c.Sandbox, c.ID = "s", runtime.ContainerID{Runtime: "fake", ID: c.Name}
		truth.Containers = append(truth.Containers, c)
	}
	return truth
}

func exited(name string, code int32) runtime.ContainerStatus {
	return runtime.ContainerStatus{Name: name, State: runtime.StateExited, ExitCode: code}
}

// The model of phases derives the phase from the containers.
func TestPhaseFits(t *testing.T) {
	runs := runtime.ContainerStatus{Name: "d", State: runtime.StateRunning}
	for _, c := range []struct {
		name   string
		policy v1.RestartPolicy
		truth  *runtime.PodStatus
		good   v1.PodPhase
		bad    v1.PodPhase // empty: the model does not judge
	}{
		{"completed", v1.RestartPolicyNever, inSandbox(exited("c", 0), exited("d", 0)), v1.PodSucceeded, v1.PodFailed},
		{"one failed", v1.RestartPolicyNever, inSandbox(exited("c", 0), exited("d", 1)), v1.PodFailed, v1.PodSucceeded},
		{"completed and not restarted", v1.RestartPolicyOnFailure, inSandbox(exited("c", 0), exited("d", 0)), v1.PodSucceeded, v1.PodRunning},
		{"one runs", v1.RestartPolicyOnFailure, inSandbox(exited("c", 0), runs), v1.PodRunning, v1.PodPending},
		{"one comes again", v1.RestartPolicyOnFailure, inSandbox(exited("c", 1), runs), v1.PodRunning, ""},
		{"one is missing", v1.RestartPolicyNever, inSandbox(runs), v1.PodPending, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := Pod("p", Container("c"), Container("d"), RestartPolicy(c.policy))
			require.NoError(t, phaseFits(pod, &v1.PodStatus{Phase: c.good}, c.truth))
			if c.bad != "" {
				require.Error(t, phaseFits(pod, &v1.PodStatus{Phase: c.bad}, c.truth))
			}
		})
	}
}

// The model of conditions finds each wrong condition.
func TestConditionsFit(t *testing.T) {
	at := metav1.NewTime(time.Unix(1, 0))
	good := func() *v1.PodStatus {
		status := &v1.PodStatus{Phase: v1.PodRunning}
		for _, kind := range []v1.PodConditionType{v1.PodScheduled, v1.PodInitialized, v1.PodReadyToStartContainers, v1.PodReady, v1.ContainersReady} {
			status.Conditions = append(status.Conditions, v1.PodCondition{Type: kind, Status: v1.ConditionTrue, LastTransitionTime: at})
		}
		return status
	}
	pod, truth := Pod("p", InitContainer("i"), Container("c")), inSandbox(exited("i", 0), runtime.ContainerStatus{Name: "c", State: runtime.StateRunning})
	require.NoError(t, conditionsFit(pod, good(), truth))
	for i := range 3 {
		bad := good()
		bad.Conditions[i].Status = v1.ConditionFalse
		require.ErrorContains(t, conditionsFit(pod, bad, truth), string(bad.Conditions[i].Type))
	}
	twice := good()
	twice.Conditions = append(twice.Conditions, twice.Conditions[0])
	require.ErrorContains(t, conditionsFit(pod, twice, truth), "twice")
	undated := good()
	undated.Conditions[3].LastTransitionTime = metav1.Time{}
	require.ErrorContains(t, conditionsFit(pod, undated, truth), "time")
	unready := good()
	unready.Conditions[3].Status, unready.Conditions[3].Reason = v1.ConditionFalse, "PodCompleted"
	require.ErrorContains(t, conditionsFit(pod, unready, truth), "ContainersNotReady")
	require.ErrorContains(t, conditionsFit(pod, good(), inSandbox(exited("i", 1))), "no init container has ever completed")
}

// The model of container statuses finds statuses that contradict the runtime's records.
func TestContainersFit(t *testing.T) {
	now := time.Unix(10, 0)
	running := inSandbox(runtime.ContainerStatus{Name: "c", State: runtime.StateRunning, StartedAt: now, RestartCount: 2})
	ended := inSandbox(runtime.ContainerStatus{Name: "c", State: runtime.StateExited, FinishedAt: now, RestartCount: 2, ExitCode: 3})
	status := func(count int32, state, last v1.ContainerState) *v1.PodStatus {
		return &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "c", ContainerID: "fake://c", RestartCount: count, State: state, LastTerminationState: last}}}
	}
	runs := func(at time.Time) v1.ContainerState {
		return v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}}
	}
	end := func(at time.Time, code int32) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: "fake://c", FinishedAt: metav1.NewTime(at), ExitCode: code}}
	}
	waits := func(reason string) v1.ContainerState {
		return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
	}
	none := v1.ContainerState{}
	require.NoError(t, containersFit(status(2, runs(now), none), running, nil))
	require.NoError(t, containersFit(status(2, waits("CrashLoopBackOff"), end(now, 3)), ended, nil))
	require.ErrorContains(t, containersFit(status(1, runs(now), none), running, nil), "restart count")
	require.ErrorContains(t, containersFit(status(3, runs(now), none), running, nil), "restart count")
	require.NoError(t, containersFit(status(3, runs(now), none), running, map[string]bool{"c": true}))
	require.ErrorContains(t, containersFit(status(1, runs(now), none), running, map[string]bool{"c": true}), "restart count")
	require.ErrorContains(t, containersFit(status(2, runs(now.Add(1)), none), running, nil), "running since")
	require.ErrorContains(t, containersFit(status(2, end(now.Add(1), 3), none), ended, nil), "ended at")
	require.ErrorContains(t, containersFit(status(2, waits(""), end(now, 3)), ended, nil), "without a reason")
	require.ErrorContains(t, containersFit(status(2, waits("CrashLoopBackOff"), end(now, 4)), ended, nil), "last end")
	require.ErrorContains(t, containersFit(status(2, waits("CrashLoopBackOff"), none), ended, nil), "last end")
}
