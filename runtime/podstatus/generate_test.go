// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/podconditions"
	"github.com/keelson-dev/keelson/runtime"
)

// TestTerminalPhaseStays: a published final phase stays.
func TestTerminalPhaseStays(t *testing.T) {
	for _, c := range []struct {
		name               string
		api, previous      v1.PodPhase
		observed           string
		override           bool
		want               v1.PodPhase
		wantReason, wantMe string
	}{
		{"ended by the API, a container runs", failed, running, "a running", false, failed, "API", "api's"},
		{"ended by the previous status, a container runs", running, failed, "a running", false, failed, "Previous", "previous'"},
		{"both, differently: the API's", succeeded, failed, "a exited 1", false, succeeded, "API", "api's"},
		{"the API's, computed differently", succeeded, "", "a exited 1", false, succeeded, "API", "api's"},
		{"no override of a pod that has succeeded", running, succeeded, "a exited 0", true, succeeded, "Previous", "previous'"},
		{"an override", running, running, "a running", true, failed, "DeadlineExceeded", "too long"},
		{"an override of a pod that just succeeded", running, running, "a exited 0", true, failed, "DeadlineExceeded", "too long"},
		{"an override of a pod that has failed: the first reason stays", running, failed, "a running", true, failed, "Previous", "previous'"},
		{"the reason stays while the phase does", running, running, "a running", false, running, "Previous", "previous'"},
		{"the API's reason, if there is no other", running, "", "a running", false, running, "API", "api's"},
		{"the reason goes with the phase", running, running, "a exited 1", false, failed, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := Input{Pod: podOf(t, never, "main a"), Observed: seen(t, "sandbox s", c.observed), Now: noon}
			in.Pod.Status = v1.PodStatus{Phase: c.api, Reason: "API", Message: "api's"}
			if c.previous != "" {
				in.Previous = &v1.PodStatus{Phase: c.previous, Reason: "Previous", Message: "previous'"}
			}
			if c.override {
				in.Override = &Override{Reason: "DeadlineExceeded", Message: "too long"}
			}
			out := Generate(in)
			assert.Equal(t, [3]string{string(c.want), c.wantReason, c.wantMe}, [3]string{string(out.Phase), out.Reason, out.Message})
			if out.Phase == failed {
				assert.Equal(t, podconditions.ReasonPodFailed, condition(out.Conditions, v1.PodReady).Reason, "the conditions know")
			}

			in.Previous, in.Override = &out, nil
			assertSame(t, out, Generate(in), "once more, without the override")
		})
	}
}

func TestStartTime(t *testing.T) {
	pod := podOf(t, always, "main a")
	first := generate(pod, nil)
	assert.Equal(t, metav1.NewTime(noon), *first.StartTime)

	later := Generate(Input{Pod: pod, Previous: &first, Now: noon.Add(time.Hour)})
	assert.Equal(t, metav1.NewTime(noon), *later.StartTime)
	assert.NotSame(t, first.StartTime, later.StartTime)

	pod.Status.StartTime = new(metav1.NewTime(noon.Add(-time.Hour)))
	assert.Equal(t, *pod.Status.StartTime, *generate(pod, nil).StartTime)
}

// TestWhatIsNotOurs: fields of other writers are copied from the API server's status.
func TestWhatIsNotOurs(t *testing.T) {
	pod := podOf(t, always, "main a")
	pod.Status.NominatedNodeName = "node"
	pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu"}}
	out := Generate(Input{Pod: pod, Previous: &v1.PodStatus{NominatedNodeName: "other"}, Now: noon})
	assert.Equal(t, "node", out.NominatedNodeName)
	assert.Equal(t, pod.Status.ResourceClaimStatuses, out.ResourceClaimStatuses)
}

func TestGenerateDefaults(t *testing.T) {
	assert.Equal(t, v1.PodStatus{}, Generate(Input{}))

	pod := podOf(t, always, "main a")
	pod.Status = generate(pod, seen(t, "sandbox s", "a running #4"))
	out := generate(pod, seen(t, "sandbox s"))
	assert.Equal(t, int32(5), out.ContainerStatuses[0].RestartCount, "the API's status is the previous one")
}

// TestStages: containers stopped by a termination have not crashed.
func TestStages(t *testing.T) {
	pod := podOf(t, always, "init i", "main a")
	up := generate(pod, seen(t, "sandbox s", "a running #1", "i exited 0"))
	assert.Equal(t, running, up.Phase)

	stopped := seen(t, "sandbox s dead", "a exited 0 #1", "i exited 0")
	terminating := Generate(Input{Pod: pod, Observed: stopped, Previous: &up, Stage: StageTerminating, Now: noon})
	assert.Equal(t, running, terminating.Phase, "not pending, though init would have to run again")
	assert.Equal(t, "10.0.0.1", terminating.PodIP)
	assert.True(t, isTrue(terminating.Conditions, v1.PodInitialized))

	gone := Generate(Input{Pod: pod, Observed: seen(t), Previous: &up, Stage: StageTerminating, Now: noon})
	assert.Equal(t, "waiting PodInitializing #1, last terminated ContainerStatusUnknown 137 a-0", show(statusOf(&gone, "a")), "no restart follows")

	terminated := Generate(Input{Pod: pod, Observed: stopped, Previous: &terminating, Stage: StageTerminated, Now: noon})
	assert.Equal(t, succeeded, terminated.Phase)
	assert.Equal(t, "True PodCompleted", showCondition(condition(terminated.Conditions, v1.PodInitialized)))
}

// TestGenerateSharesNothing: the result may be written to.
func TestGenerateSharesNothing(t *testing.T) {
	in := Input{Pod: podOf(t, always, "init i", "main a", "main b"), Observed: seen(t, "sandbox s", "a exited 1", "a exited 2"), Now: noon}
	in.StartFailures = crashing("a")
	in.Pod.Spec.Containers[0].Resources = needs("cpu=1", "cpu=1")
	in.Pod.Status = Generate(in)
	in.Pod.Status.Conditions = append(in.Pod.Status.Conditions, v1.PodCondition{Type: "x.io/a"})
	previous := Generate(in)
	in.Previous = &previous
	in.Observed = &runtime.PodStatus{Sandboxes: in.Observed.Sandboxes} // everything comes from the previous status
	pod, before := in.Pod.DeepCopy(), previous.DeepCopy()

	out := Generate(in)
	out.Conditions[0].Reason, out.PodIPs = "Changed", append(out.PodIPs[:0], v1.PodIP{IP: "changed"})
	for _, list := range [][]v1.ContainerStatus{out.InitContainerStatuses, out.ContainerStatuses} {
		for i := range list {
			s := &list[i]
			for _, state := range []v1.ContainerState{s.State, s.LastTerminationState} {
				if state.Waiting != nil {
					state.Waiting.Reason = "Changed"
				}
				if state.Terminated != nil {
					state.Terminated.Reason = "Changed"
				}
			}
			*s.Started = !*s.Started
		}
	}
	out.StartTime.Time = time.Time{}
	assert.Equal(t, pod, in.Pod)
	assert.Equal(t, before, in.Previous)
	assert.Equal(t, crashing("a"), in.StartFailures)
}

// A pod whose containers ended before Override.At keeps the phase of the exits.
func TestOverrideAfterTheEnd(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "a"}}}}
	observed := &runtime.PodStatus{
		Sandboxes: []runtime.SandboxStatus{{ID: "s"}},
		Containers: []runtime.ContainerStatus{{
			Name: "a", ID: runtime.ContainerID{Runtime: "fake", ID: "1"}, Sandbox: "s", State: runtime.StateExited, FinishedAt: time.Unix(30, 0),
		}},
	}
	for at, want := range map[time.Time]v1.PodPhase{
		time.Unix(31, 0): v1.PodSucceeded, time.Unix(30, 0): v1.PodFailed, time.Unix(29, 0): v1.PodFailed, {}: v1.PodFailed,
	} {
		out := Generate(Input{Pod: pod, Observed: observed, Now: time.Unix(60, 0), Override: &Override{Reason: "Late", At: at}})
		assert.Equal(t, want, out.Phase, "at %v", at)
	}
}
