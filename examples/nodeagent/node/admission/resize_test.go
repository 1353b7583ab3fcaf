// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
)

func TestResize(t *testing.T) {
	node := &admission.Node{Allocatable: list("cpu=4 pods=2")}
	for _, tt := range []struct {
		name            string
		others          string
		now, wanted     string
		reason, message string
	}{
		{name: "there is room", others: "cpu=1", now: "cpu=1", wanted: "cpu=3"},
		{name: "there is none now", others: "cpu=2", now: "cpu=1", wanted: "cpu=3", reason: v1.PodReasonDeferred,
			message: "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"},
		{name: "there never is", others: "cpu=1", now: "cpu=1", wanted: "cpu=5", reason: v1.PodReasonInfeasible,
			message: "Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000"},
		{name: "less is always granted", others: "cpu=9", now: "cpu=3", wanted: "cpu=2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now, wanted := pod("p", asks(tt.now)), pod("p", asks(tt.wanted))
			used := usage(now, pod("a", asks(tt.others)), pod("b"), pod("c"))
			r := admission.Resize(node, used, admission.DemandOf(now), admission.DemandOf(wanted))
			if tt.reason == "" {
				require.Nil(t, r.Pending)
				require.True(t, r.Granted)
				require.Same(t, wanted, r.Run.Pod)
				return
			}
			require.Equal(t, &admission.Pending{Reason: tt.reason, Message: tt.message}, r.Pending)
			require.False(t, r.Granted)
			require.True(t, admission.SameResources(now, r.Run.Pod))
		})
	}
}

// While a resize is pending, the pod runs in the new version with the present resources.
func TestAPendingResizeKeepsTheRestOfTheNewVersion(t *testing.T) {
	now, wanted := pod("p", asks("cpu=1"), initAsks("cpu=1")), pod("p", asks("cpu=2"), initAsks("cpu=3"))
	wanted.Labels = map[string]string{"new": "yes"}
	r := admission.Resize(&admission.Node{Allocatable: list("cpu=1")}, usage(now), admission.DemandOf(now), admission.DemandOf(wanted))
	run := r.Run.Pod
	require.True(t, admission.SameResources(run, now))
	require.False(t, admission.SameResources(run, wanted))
	require.Equal(t, wanted.Labels, run.Labels)
	require.Equal(t, list("cpu=2"), wanted.Spec.Containers[0].Resources.Requests, "it must not be written")
}

// A new version with the same resources is no resize, even on a full node.
func TestAVersionWithTheSameResourcesIsNoResize(t *testing.T) {
	now, wanted := admission.DemandOf(pod("p", asks("cpu=1"))), admission.DemandOf(pod("p", asks("cpu=1000m")))
	r := admission.Resize(&admission.Node{Allocatable: list("cpu=0")}, admission.UsageOf(now), now, wanted)
	require.Equal(t, admission.Resized{Run: wanted}, r)
}

func TestAllocatedIsReadFromTheStatus(t *testing.T) {
	p := pod("p", asks("cpu=2 memory=1Gi"))
	own := admission.DemandOf(p)
	require.Same(t, own, admission.Allocated(own), "nothing is known")

	told := v1.ContainerStatus{Name: "c", AllocatedResources: list("cpu=1 memory=1Gi"), Resources: &v1.ResourceRequirements{Requests: list("cpu=1 memory=1Gi")}}
	p.Status.ContainerStatuses = []v1.ContainerStatus{told}
	require.EqualValues(t, 1000, admission.Allocated(own).Of(v1.ResourceCPU))
	require.EqualValues(t, 2000, admission.DemandOf(p).Of(v1.ResourceCPU))

	p.Status.ContainerStatuses[0].AllocatedResources = list("cpu=2000m memory=1024Mi")
	require.Same(t, own, admission.Allocated(own), "the same, written differently")
}
