// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

const (
	pending   = v1.PodPending
	running   = v1.PodRunning
	succeeded = v1.PodSucceeded
	failed    = v1.PodFailed
)

// crashing returns start failures of containers in back-off.
func crashing(names ...string) runtime.StartFailures {
	out := runtime.StartFailures{}
	for _, name := range names {
		out[name] = v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
	}
	return out
}

// TestPhase has the rows of the phase table, in its order.
func TestPhase(t *testing.T) {
	side := []string{"side s startup", "main a"}
	for _, c := range []struct {
		name     string
		policy   v1.RestartPolicy
		pod      []string
		observed []string
		failures runtime.StartFailures
		stage    Stage
		want     v1.PodPhase
	}{
		{"1 init failed, Never", never, []string{"init i", "main a"}, []string{"sandbox s", "i exited 1"}, nil, StageSync, failed},
		{"1 the second init failed, Never", never, []string{"init i", "init j", "main a"}, []string{"sandbox s", "j exited 1", "i exited 0"}, nil, StageSync, failed},
		{"1 init failed, its own Never", always, []string{"init i policy=Never", "main a"}, []string{"sandbox s", "i exited 1"}, nil, StageSync, failed},
		{"1 init out of memory with code 0, Never", never, []string{"init i", "main a"}, []string{"sandbox s", "i exited 0 OOMKilled"}, nil, StageSync, failed},
		{"1 init failed, a rule restarts it", never, []string{"init i policy=Never rule=Restart/In/1", "main a"}, []string{"sandbox s", "i exited 1"}, nil, StageSync, pending},
		{"1 init failed, its own Always in a Never pod", never, []string{"init i policy=OnFailure", "main a"}, []string{"sandbox s", "i exited 1"}, nil, StageSync, pending},
		{"1 init failed, Always", always, []string{"init i", "main a"}, []string{"sandbox s", "i exited 1"}, nil, StageSync, pending},
		{"1 init failed and backs off, OnFailure", onFailure, []string{"init i", "main a"}, []string{"sandbox s", "i exited 1"}, crashing("i"), StageSync, pending},

		{"1 all is over, nothing is left of init", never, []string{"side s", "main a"}, []string{"a exited 0"}, nil, StageSync, succeeded},
		{"1 all is over, one failed, and nothing is left of init", never, []string{"init i", "main a", "main b"}, []string{"b exited 0", "a exited 1"}, nil, StageSync, failed},
		{"1 all is over, and init as it is now never ran", onFailure, []string{"init i", "main a"}, []string{"a exited 0"}, nil, StageSync, succeeded},
		{"1 one is not over, and nothing is left of init", onFailure, []string{"init i", "main a", "main b"}, []string{"b exited 0", "a exited 1"}, nil, StageSync, pending},

		{"2 nothing made", always, []string{"init i", "main a"}, nil, nil, StageSync, pending},
		{"2 init runs", always, []string{"init i", "main a"}, []string{"sandbox s", "i running"}, nil, StageSync, pending},
		{"2 the second init is to come", always, []string{"init i", "init j", "main a"}, []string{"sandbox s", "i exited 0"}, nil, StageSync, pending},
		{"2 a sidecar has not started", always, side, []string{"sandbox s", "s running"}, nil, StageSync, pending},
		{"2 a sidecar has not started in a new sandbox", always, side, []string{"sandbox t", "sandbox s dead", "s running", "a exited 1 @s"}, nil, StageSync, pending},
		{"2 init in a new sandbox was lost sight of, and the pod is stopped", always, []string{"init i", "main a"}, []string{"sandbox t", "sandbox s dead", "i unknown", "a exited 1 @s"}, nil, StageTerminating, pending},
		{"2 the second init is to come in a new sandbox, and the pod is stopped", always, []string{"init i", "init j", "main a"}, []string{"sandbox t", "sandbox s dead", "i exited 0", "a exited 1 @s"}, nil, StageTerminating, pending},
		{"2 init runs again in a new sandbox, and the pod is stopped", always, []string{"init i", "main a"}, []string{"sandbox t", "sandbox s dead", "i running #1", "i exited 1", "a exited 1 @s"}, nil, StageTerminating, pending},
		{"2 a sidecar restarts in an initialized pod", always, side, []string{"sandbox s", "a running", "s running"}, nil, StageSync, running},

		{"3 a regular container waits", always, []string{"main a", "main b"}, []string{"sandbox s", "a running"}, nil, StageSync, pending},
		{"3 it cannot be started", always, []string{"main a", "main b"}, []string{"sandbox s", "b created", "a running"}, crashing("b"), StageSync, pending},
		{"3 a sidecar was never made", always, side, []string{"sandbox s", "a running"}, nil, StageSync, pending},

		{"4 all run", always, []string{"main a", "main b"}, []string{"sandbox s", "b running", "a running"}, nil, StageSync, running},
		{"4 init of an initialized pod was lost sight of", always, []string{"init i", "main a"}, []string{"sandbox s", "a running", "i unknown"}, nil, StageSync, running},
		{"4 one runs, one is done", onFailure, []string{"main a", "main b"}, []string{"sandbox s", "b running", "a exited 0"}, nil, StageSync, running},
		{"4 one runs, one failed, Never", never, []string{"main a", "main b"}, []string{"sandbox s", "b running", "a exited 1"}, nil, StageSync, running},
		{"4 one runs, one crashes", always, []string{"main a", "main b"}, []string{"sandbox s", "b running", "a exited 1"}, crashing("a"), StageSync, running},
		{"4 sidecars run on after all mains succeeded", never, side, []string{"sandbox s", "s running", "a exited 0"}, nil, StageSync, running},
		{"4 a sidecar runs in a new sandbox, mains are to follow", always, []string{"side s", "main a"}, []string{"sandbox t", "sandbox s dead", "s running", "a exited 1 @s"}, nil, StageSync, running},
		{"4 a sidecar ended and is to run again", always, []string{"side s", "main a"}, []string{"sandbox s", "s exited 1", "a running"}, nil, StageSync, running},
		{"4 one was lost sight of, it will be replaced", always, []string{"main a", "main b"}, []string{"sandbox s", "b running", "a unknown"}, nil, StageSync, pending},

		{"5a terminated, all succeeded", always, []string{"main a", "main b"}, []string{"sandbox s", "b exited 0", "a exited 0"}, nil, StageTerminated, succeeded},
		{"5a terminated, one failed", always, []string{"main a", "main b"}, []string{"sandbox s", "b exited 0", "a exited 1"}, nil, StageTerminated, failed},
		{"5a terminated, nothing ever ran", always, []string{"init i", "main a"}, nil, nil, StageTerminated, failed},
		{"5a terminated before init was complete", always, []string{"init i", "main a"}, []string{"sandbox s", "i exited 137"}, nil, StageTerminated, failed},
		{"5a terminated, one never ran", never, []string{"main a", "main b"}, []string{"sandbox s", "a exited 0"}, nil, StageTerminated, failed},
		{"5a terminated, although a rule restarts all", never, []string{"main a policy=Never rule=RestartAllContainers/In/42", "main b"}, []string{"sandbox s", "b exited 0", "a exited 42"}, nil, StageTerminated, failed},
		{"5a terminated, although a rule of a sidecar restarts all", never, []string{"side s rule=RestartAllContainers/In/42", "main a"}, []string{"sandbox s", "s exited 42", "a exited 0"}, nil, StageTerminated, succeeded},
		{"5b a container that is not in the pod still runs", never, []string{"main a"}, []string{"sandbox s", "z running", "a exited 0"}, nil, StageSync, running},
		{"5a something may still run", always, []string{"main a"}, []string{"sandbox s", "a unknown"}, nil, StageTerminated, pending},
		{"5a something still runs", always, []string{"main a"}, []string{"sandbox s", "a running"}, nil, StageTerminated, running},
		{"5a all succeeded, and init still runs in a new sandbox", never, []string{"init i", "main a"}, []string{"sandbox t", "sandbox s dead", "i running", "a exited 0 @s"}, nil, StageTerminated, pending},
		{"5a a static pod that never ran", always, []string{"main a", "static"}, nil, nil, StageTerminated, pending},
		{"5a not of a static pod", always, []string{"main a", "static"}, []string{"sandbox s", "a exited 0"}, nil, StageTerminated, running},
		{"5a terminating is not terminated", always, []string{"main a", "deleted"}, []string{"sandbox s", "a exited 0"}, nil, StageTerminating, running},

		{"5b Always, stopped", always, []string{"main a"}, []string{"sandbox s", "a exited 0"}, nil, StageSync, running},
		{"5b Always, crashing", always, []string{"main a"}, []string{"sandbox s", "a exited 1"}, crashing("a"), StageSync, running},
		{"5b Always, stopped, without init in a new sandbox", always, []string{"main a"}, []string{"sandbox t", "sandbox s dead", "a exited 0 @s"}, nil, StageSync, running},
		{"5b OnFailure, succeeded", onFailure, []string{"main a"}, []string{"sandbox s", "a exited 0"}, nil, StageSync, succeeded},
		{"5b OnFailure, failed", onFailure, []string{"main a"}, []string{"sandbox s", "a exited 1"}, nil, StageSync, running},
		{"5b OnFailure, crashing", onFailure, []string{"main a"}, []string{"sandbox s", "a exited 1"}, crashing("a"), StageSync, running},
		{"5b Never, succeeded", never, []string{"main a", "main b"}, []string{"sandbox s", "b exited 0", "a exited 0"}, nil, StageSync, succeeded},
		{"5b Never, killed for its new spec, whose start failed", never, []string{"main a"}, []string{"sandbox s", "a created #1", "a exited 137"}, nil, StageSync, running},
		{"5b Never, failed, and an earlier agent's instance appeared", never, []string{"main a"}, []string{"sandbox s", "a created", "a exited 137"}, nil, StageSync, failed},
		{"5b Never, one failed", never, []string{"main a", "main b"}, []string{"sandbox s", "b exited 0", "a exited 1"}, nil, StageSync, failed},
		{"5b static, Never, succeeded", never, []string{"main a", "static"}, []string{"sandbox s", "a exited 0"}, nil, StageTerminated, succeeded},
		{"5b a deletion does not end a pod early", always, []string{"main a", "deleted"}, []string{"sandbox s", "a exited 0"}, nil, StageSync, running},
		{"5b own Always in a Never pod", never, []string{"main a", "main b policy=Always"}, []string{"sandbox s", "b exited 0", "a exited 1"}, nil, StageSync, running},
		{"5b own Never in an Always pod", always, []string{"main a policy=Never"}, []string{"sandbox s", "a exited 1"}, nil, StageSync, failed},
		{"5b own OnFailure in an Always pod", always, []string{"main a policy=OnFailure"}, []string{"sandbox s", "a exited 0"}, nil, StageSync, succeeded},
		{"5b a rule restarts it", never, []string{"main a policy=Never rule=Restart/In/42"}, []string{"sandbox s", "a exited 42"}, nil, StageSync, running},
		{"5b no rule restarts it", never, []string{"main a policy=Never rule=Restart/In/42"}, []string{"sandbox s", "a exited 43"}, nil, StageSync, failed},
		{"5b a rule restarts all", never, []string{"main a policy=Never rule=RestartAllContainers/In/42", "main b"}, []string{"sandbox s", "b exited 0", "a exited 42"}, nil, StageSync, running},
		{"5b a rule of a sidecar restarts all", never, []string{"side s rule=RestartAllContainers/In/42", "main a"}, []string{"sandbox s", "s exited 42", "a exited 0"}, nil, StageSync, running},
		{"5b a sidecar's exit never matters", never, []string{"side s", "main a"}, []string{"sandbox s", "s exited 1", "a exited 0"}, nil, StageSync, succeeded},
		{"5b a crashing sidecar's neither", never, []string{"side s", "main a"}, []string{"sandbox s", "s exited 1", "a exited 0"}, crashing("s"), StageSync, succeeded},

		{"6 nothing made, no init", always, []string{"main a"}, nil, nil, StageSync, pending},
		{"6 no containers at all", always, nil, nil, nil, StageSync, pending},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := Generate(Input{
				Pod: podOf(t, c.policy, c.pod...), Observed: seen(t, c.observed...), StartFailures: c.failures, Stage: c.stage, Now: noon,
				Started: func(runtime.ContainerID) bool { return false },
			})
			assert.Equal(t, c.want, out.Phase)
		})
	}
}

// TestWaitingAfterSuccessIsNoSuccess: a container that was to run again when the
// pod was stopped has not succeeded.
func TestWaitingAfterSuccessIsNoSuccess(t *testing.T) {
	waits := v1.ContainerStatus{Name: "a", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}}
	waits.LastTerminationState.Terminated = &v1.ContainerStateTerminated{}
	g := newGenerator(Input{Pod: podOf(t, always, "main a"), Stage: StageTerminated})
	assert.Equal(t, failed, g.phase(&v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{waits}}))
}
