// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/statusmanager"
)

var mergeNow = metav1.Unix(1_800_000_000, 0)

func merge(pod *v1.Pod, api, ours v1.PodStatus, mayRun bool) (v1.PodStatus, bool) {
	return statusmanager.Merge(statusmanager.MergeInput{Pod: pod, API: &api, Ours: &ours, MayRun: mayRun, Now: mergeNow})
}

func TestMergePhase(t *testing.T) {
	const pending, runs, failed, done = v1.PodPending, v1.PodRunning, v1.PodFailed, v1.PodSucceeded
	tests := []struct {
		name      string
		api, ours v1.PodPhase
		mayRun    bool
		static    bool
		want      v1.PodPhase
		held      bool
	}{
		{"news", pending, runs, true, false, runs, false},
		{"end", runs, done, false, false, done, false},
		{"end while something may run", runs, done, true, false, runs, true},
		{"ended before", done, done, true, false, done, false},
		{"ended by somebody else", failed, runs, true, false, failed, false},
		{"ended otherwise by somebody else", failed, done, false, false, failed, false},
		{"back", runs, pending, true, false, runs, false},
		{"static pod back", done, pending, true, true, pending, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			pod := testPod("a")
			if tc.static {
				static(pod)
			}
			got, held := merge(pod, v1.PodStatus{Phase: tc.api, Reason: "api"}, v1.PodStatus{Phase: tc.ours, Reason: "ours"}, tc.mayRun)
			assert.Equal(t, tc.want, got.Phase)
			assert.Equal(t, tc.held, held)
			if tc.want == tc.api && tc.api != tc.ours {
				assert.Equal(t, "api", got.Reason, "reason goes with the phase")
			} else {
				assert.Equal(t, "ours", got.Reason)
			}
		})
	}
}

func TestMergeConditions(t *testing.T) {
	c := func(kind v1.PodConditionType, s v1.ConditionStatus, at int64) v1.PodCondition {
		return v1.PodCondition{Type: kind, Status: s, LastTransitionTime: metav1.Unix(at, 0)}
	}
	const yes, no = v1.ConditionTrue, v1.ConditionFalse
	const theirs = v1.PodConditionType("example.com/theirs")
	ended := func(kind v1.PodConditionType) v1.PodCondition {
		return v1.PodCondition{Type: kind, Status: no, Reason: "PodFailed", LastTransitionTime: mergeNow}
	}
	tests := []struct {
		name            string
		pod             *v1.Pod
		apiPhase, phase v1.PodPhase
		api, ours, want []v1.PodCondition
	}{
		{"theirs stay, ours are ours", testPod("a"), v1.PodRunning, v1.PodRunning,
			[]v1.PodCondition{c(theirs, yes, 1), c(v1.PodReady, no, 1)},
			[]v1.PodCondition{c(theirs, no, 2), c("example.com/other", yes, 2), c(v1.PodReady, yes, 2)},
			[]v1.PodCondition{c(theirs, yes, 1), c(v1.PodReady, yes, 2)}},
		{"ours that is gone goes", testPod("a"), v1.PodRunning, v1.PodRunning,
			[]v1.PodCondition{c(v1.PodResizePending, yes, 1)}, nil, nil},
		{"changed by somebody since", testPod("a"), v1.PodRunning, v1.PodRunning,
			[]v1.PodCondition{c(v1.PodReady, no, 9)}, []v1.PodCondition{c(v1.PodReady, yes, 2)},
			[]v1.PodCondition{c(v1.PodReady, yes, mergeNow.Unix())}},
		{"the later of two times", testPod("a"), v1.PodRunning, v1.PodRunning,
			[]v1.PodCondition{c(v1.PodReady, yes, 9), c(v1.PodScheduled, yes, 1)}, []v1.PodCondition{c(v1.PodReady, yes, 2), c(v1.PodScheduled, yes, 2)},
			[]v1.PodCondition{c(v1.PodReady, yes, 9), c(v1.PodScheduled, yes, 2)}},
		{"disruption when it ends", testPod("a"), v1.PodRunning, v1.PodFailed,
			[]v1.PodCondition{c(v1.DisruptionTarget, no, 1)}, []v1.PodCondition{c(v1.DisruptionTarget, yes, 2)},
			[]v1.PodCondition{c(v1.DisruptionTarget, yes, 2), ended(v1.PodReady), ended(v1.ContainersReady)}},
		{"disruption is theirs before", testPod("a"), v1.PodRunning, v1.PodRunning,
			[]v1.PodCondition{c(v1.DisruptionTarget, no, 1)}, []v1.PodCondition{c(v1.DisruptionTarget, yes, 2)},
			[]v1.PodCondition{c(v1.DisruptionTarget, no, 1)}},
		{"disruption is theirs afterwards", testPod("a"), v1.PodFailed, v1.PodFailed,
			[]v1.PodCondition{c(v1.DisruptionTarget, no, 1)}, []v1.PodCondition{c(v1.DisruptionTarget, yes, 2)},
			[]v1.PodCondition{c(v1.DisruptionTarget, no, 1), ended(v1.PodReady), ended(v1.ContainersReady)}},
		{"gate closed by somebody", testPod("a", gate(theirs)), v1.PodRunning, v1.PodRunning,
			[]v1.PodCondition{c(theirs, no, 5), c(v1.PodReady, yes, 1)}, []v1.PodCondition{c(v1.ContainersReady, yes, 2), c(v1.PodReady, yes, 2)},
			[]v1.PodCondition{c(theirs, no, 5), c(v1.ContainersReady, yes, 2), {Type: v1.PodReady, Status: no, Reason: "ReadinessGatesNotReady",
				Message: `the status of pod readiness gate "example.com/theirs" is not "True", but False`, LastTransitionTime: mergeNow}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, _ := merge(tc.pod, v1.PodStatus{Phase: tc.apiPhase, Conditions: tc.api}, v1.PodStatus{Phase: tc.phase, Conditions: tc.ours}, false)
			assert.ElementsMatch(t, tc.want, got.Conditions)
		})
	}
}

// TestUpstream108594EndedPodIsNotReady also when the readiness comes from before.
func TestUpstream108594EndedPodIsNotReady(t *testing.T) {
	both := []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}, {Type: v1.ContainersReady, Status: v1.ConditionTrue}}
	for phase, reason := range map[v1.PodPhase]string{v1.PodFailed: "PodFailed", v1.PodSucceeded: "PodCompleted"} {
		got, _ := merge(testPod("a"), v1.PodStatus{Phase: phase}, v1.PodStatus{Phase: v1.PodRunning, Conditions: both}, false)
		for _, kind := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady} {
			assert.Equal(t, v1.ConditionFalse, condition(got, kind).Status)
			assert.Equal(t, reason, condition(got, kind).Reason)
			assert.Equal(t, mergeNow, condition(got, kind).LastTransitionTime)
		}
	}
}

func TestMergeLeavesWhatOthersOwn(t *testing.T) {
	api, ours := fullStatus(1), fullStatus(2)
	ours.QOSClass = ""
	api.ObservedGeneration = 9
	got, _ := merge(testPod("a"), api, ours, false)
	assert.Equal(t, api.NominatedNodeName, got.NominatedNodeName)
	assert.Equal(t, api.ResourceClaimStatuses, got.ResourceClaimStatuses)
	assert.Equal(t, api.ExtendedResourceClaimStatus, got.ExtendedResourceClaimStatus)
	assert.Equal(t, api.NodeAllocatableResourceClaimStatuses, got.NodeAllocatableResourceClaimStatuses)
	assert.Equal(t, api.StartTime, got.StartTime)
	assert.Equal(t, api.QOSClass, got.QOSClass)
	assert.Equal(t, int64(9), got.ObservedGeneration)
	assert.Equal(t, ours.PodIPs, got.PodIPs)
	assert.Equal(t, ours.VolumeHealth, got.VolumeHealth)
}

// TestMergeTwiceIsMergeOnce: a second Merge after a write changes nothing, and the inputs are not written to.
func TestMergeTwiceIsMergeOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range casetest.Rounds(300) {
		api, ours := randomStatus(rng), randomStatus(rng)
		api.Phase = []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodFailed}[rng.IntN(3)]
		ours.Phase = []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodSucceeded}[rng.IntN(3)]
		pod := testPod("a", gate("example.com/theirs"))
		apiBefore, oursBefore := *api.DeepCopy(), *ours.DeepCopy()
		mayRun := rng.IntN(2) == 0
		once, _ := merge(pod, api, ours, mayRun)
		require.Equal(t, apiBefore, api)
		require.Equal(t, oursBefore, ours)
		twice, _ := statusmanager.Merge(statusmanager.MergeInput{
			Pod: pod, API: &once, Ours: &ours, MayRun: mayRun, Now: metav1.Unix(1_900_000_000, 0),
		})
		require.True(t, statusmanager.Equal(&once, &twice), "once  %s\ntwice %s", text(t, once), text(t, twice))
		patch, err := statusmanager.Diff(&once, &twice, "a")
		require.NoError(t, err)
		require.Nil(t, patch, "not even times: %s", patch)
	}
}

// TestMergeEndsReadiness: at the end of a pod neither condition is missing or True, and both have the reason of the end
// unless both say so already.
func TestMergeEndsReadiness(t *testing.T) {
	const yes, no = v1.ConditionTrue, v1.ConditionFalse
	for name, tc := range map[string]struct {
		phase             v1.PodPhase
		ready, containers v1.ConditionStatus // empty: missing
		reason            string
	}{
		"none":             {v1.PodSucceeded, "", "", "PodCompleted"},
		"no Ready":         {v1.PodFailed, "", no, "PodFailed"},
		"no containers":    {v1.PodFailed, no, "", "PodFailed"},
		"both are ready":   {v1.PodSucceeded, yes, yes, "PodCompleted"},
		"one is ready":     {v1.PodFailed, no, yes, "PodFailed"},
		"both are unready": {v1.PodFailed, no, no, "Mine"},
	} {
		t.Run(name, func(t *testing.T) {
			ours := v1.PodStatus{Phase: tc.phase}
			for kind, value := range map[v1.PodConditionType]v1.ConditionStatus{v1.PodReady: tc.ready, v1.ContainersReady: tc.containers} {
				if value != "" {
					ours.Conditions = append(ours.Conditions, v1.PodCondition{Type: kind, Status: value, Reason: "Mine", LastTransitionTime: mergeNow})
				}
			}
			got, _ := merge(testPod("a"), v1.PodStatus{Phase: v1.PodRunning}, ours, false)
			for _, kind := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady} {
				c := condition(got, kind)
				require.NotNil(t, c, kind)
				assert.Equal(t, no, c.Status)
				assert.Equal(t, tc.reason, c.Reason)
				assert.Equal(t, mergeNow, c.LastTransitionTime)
			}
		})
	}
}
