// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

func TestCoalesceInit(t *testing.T) {
	pod := testPod("a", initContainers("one", "two"))
	idle := waiting("main", "PodInitializing")
	inInit := func(init ...v1.ContainerStatus) *v1.PodStatus {
		s := withInit(status(v1.PodPending, idle), init...)
		return &s
	}
	begun := inInit(running("one"), waiting("two", "PodInitializing"))
	with := func(s *v1.PodStatus, edit func(*v1.PodStatus)) *v1.PodStatus {
		s = s.DeepCopy()
		edit(s)
		return s
	}
	again := running("one")
	again.LastTerminationState = exited("one", 1).State
	tests := []struct {
		name     string
		old, now *v1.PodStatus
		held     bool
	}{
		{"the first", nil, begun, false},
		{"one init container after the other", begun, inInit(exited("one", 0), running("two")), true},
		{"init begins", inInit(waiting("one", "x"), waiting("two", "x")), begun, true},
		{"not begun", inInit(waiting("one", "x"), waiting("two", "x")), inInit(waiting("one", "y"), waiting("two", "x")), false},
		{"all done", begun, inInit(exited("one", 0), exited("two", 0)), false},
		{"failed", begun, inInit(exited("one", 1), waiting("two", "x")), false},
		{"has failed before", begun, inInit(again, waiting("two", "x")), false},
		{"cannot be started", begun, inInit(exited("one", 0), waiting("two", "RunContainerError")), false},
		{"waits for its turn", begun, inInit(exited("one", 0), waiting("two", "ContainerCreating")), true},
		{"all sidecars are ready", inInit(ready("one"), running("two")), inInit(ready("one"), ready("two")), false},
		{"one sidecar is ready", inInit(running("one"), waiting("two", "PodInitializing")), inInit(ready("one"), waiting("two", "PodInitializing")), true},
		{"phase", begun, with(begun, func(s *v1.PodStatus) { s.Phase = v1.PodRunning }), false},
		{"not pending", with(begun, func(s *v1.PodStatus) { s.Phase = v1.PodRunning }),
			with(inInit(exited("one", 0), running("two")), func(s *v1.PodStatus) { s.Phase = v1.PodRunning }), false},
		{"a regular container", begun, with(begun, func(s *v1.PodStatus) { s.ContainerStatuses[0] = running("main") }), false},
		{"an address", begun, with(begun, func(s *v1.PodStatus) { s.PodIP = "10.0.0.1" }), false},
		{"a condition", begun, with(begun, func(s *v1.PodStatus) {
			s.Conditions = []v1.PodCondition{{Type: v1.PodReadyToStartContainers, Status: v1.ConditionTrue}}
		}), false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := statusmanager.CoalesceInit(time.Second)(statusmanager.Change{Pod: pod, Old: tc.old, New: tc.now})
			assert.Equal(t, map[bool]time.Duration{true: time.Second}[tc.held], got)
		})
	}
}

// TestHolds: a hold is not prolonged, ends with a change that is not held, and is not for the end of a pod.
func TestHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := func(c statusmanager.Change) time.Duration {
			if c.New.Reason == "now" {
				return 0
			}
			return 2 * time.Second
		}
		n := newNode(t, statustest.Options{}, statusmanager.Options{Coalesce: hold})
		pod := n.server.Create(testPod("a"))
		set := func(phase v1.PodPhase, reason string) {
			s := status(phase, waiting("main", "x"))
			s.Reason = reason
			n.set(pod, s)
			time.Sleep(900 * time.Millisecond)
		}
		set(v1.PodPending, "one")
		set(v1.PodPending, "two")
		set(v1.PodPending, "three") // two seconds after the first
		set(v1.PodPending, "four")
		set(v1.PodPending, "now")
		set(v1.PodPending, "five")
		set(v1.PodFailed, "six")
		time.Sleep(time.Minute)
		var at []time.Duration
		for _, e := range n.server.Journal() {
			at = append(at, e.At)
		}
		assert.Equal(t, []time.Duration{2 * time.Second, 3600 * time.Millisecond, 5400 * time.Millisecond}, at)
		assert.Equal(t, "six", n.api("a").Reason)
	})
}
