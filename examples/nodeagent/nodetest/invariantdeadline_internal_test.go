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

// A pod that is reported to exceed a deadline has a deadline, and is old enough.
func TestDeadlines(t *testing.T) {
	limited := func(seconds int64) *v1.Pod {
		pod := Pod("p", Container("c"))
		if seconds > 0 {
			pod.Spec.ActiveDeadlineSeconds = &seconds
		}
		return pod
	}
	for _, c := range []struct {
		name string
		pod  *v1.Pod
		at   time.Duration
		want string
	}{
		{"in time", limited(20), 20 * time.Second, ""},
		{"too early", limited(20), 19 * time.Second, "after 18s, and its deadline is 20s"},
		{"without one", limited(0), time.Hour, "has no deadline"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Check(History{
				Told:     []Told{{At: time.Second, Source: "file", Pods: []*v1.Pod{c.pod}}},
				Statuses: []Published{{At: c.at, Pod: c.pod, Status: v1.PodStatus{Phase: v1.PodFailed, Reason: reasonDeadline}}},
			})
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

func TestInTime(t *testing.T) {
	pod, began := Pod("p", Container("c"), GracePeriod(10)), time.Unix(1000, 0)
	seconds := int64(20)
	start := metav1.NewTime(began)
	status := &v1.PodStatus{StartTime: &start}
	require.NoError(t, inTime(pod, status, began.Add(time.Hour)), "no deadline")
	pod.Spec.ActiveDeadlineSeconds = &seconds
	require.NoError(t, inTime(pod, status, began.Add(90*time.Second)))
	require.ErrorContains(t, inTime(pod, status, began.Add(91*time.Second)), "its deadline is 20 s")
}

func TestResized(t *testing.T) {
	pod := Pod("p", Container("c"))
	needCPU.of(&pod.Spec.Containers[0], 200, 1)
	given := func(milli int) *v1.ResourceRequirements {
		other := Pod("p", Container("c"))
		needCPU.of(&other.Spec.Containers[0], milli, 1)
		return &other.Spec.Containers[0].Resources
	}
	in := func(milli int) *runtime.PodStatus {
		return inSandbox(runtime.ContainerStatus{Name: "c", State: runtime.StateRunning, Resources: given(milli)})
	}
	shown := func(milli int) *v1.PodStatus {
		return &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{
			Name: "c", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}, Resources: given(milli), AllocatedResources: given(milli).Requests,
		}}}
	}
	require.NoError(t, resized(pod, shown(200), in(200)))
	require.ErrorContains(t, resized(pod, shown(200), in(100)), "the runtime gives it")
	require.ErrorContains(t, resized(pod, shown(100), in(200)), "is published with")
	under := shown(200)
	under.Conditions = []v1.PodCondition{{Type: v1.PodResizeInProgress, Status: v1.ConditionTrue}}
	require.ErrorContains(t, resized(pod, under, in(200)), "PodResizeInProgress")
}
