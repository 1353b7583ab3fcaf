// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

func TestResizeConditions(t *testing.T) {
	deferred := &ResizePending{Reason: v1.PodReasonDeferred, Message: "no room"}
	busy := runtime.Resizing{UnderWay: true, Error: "cannot decrease memory limits"}
	for _, c := range []struct {
		name     string
		pod      []string
		observed string
		edit     func(*Input)
		pending  string
		progress string
	}{
		{name: "none", edit: func(*Input) {}},
		{name: "deferred", edit: func(in *Input) { in.ResizePending = deferred }, pending: "True Deferred no room"},
		{name: "infeasible", edit: func(in *Input) { in.ResizePending = &ResizePending{Reason: v1.PodReasonInfeasible} }, pending: "True Infeasible "},
		{name: "under way", edit: func(in *Input) { in.Resizing.UnderWay = true }, progress: "True  "},
		{name: "failed", edit: func(in *Input) { in.Resizing = busy }, progress: "True Error cannot decrease memory limits"},
		{name: "an old error", edit: func(in *Input) { in.Resizing.Error = "busy" }},
		{name: "both", edit: func(in *Input) { in.ResizePending, in.Resizing = deferred, busy },
			pending: "True Deferred no room", progress: "True Error cannot decrease memory limits"},
		{name: "not while it is stopped", edit: func(in *Input) { in.ResizePending, in.Resizing, in.Stage = deferred, busy, StageTerminating }},
		{name: "not once it is deleted", pod: []string{"main a", "deleted"}, edit: func(in *Input) { in.ResizePending, in.Resizing = deferred, busy }},
		{name: "not once it is over", observed: "a exited 0", edit: func(in *Input) { in.ResizePending, in.Resizing = deferred, busy }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.pod == nil {
				c.pod = []string{"main a"}
			}
			if c.observed == "" {
				c.observed = "a running"
			}
			in := Input{Pod: podOf(t, never, c.pod...), Observed: seen(t, "sandbox s", c.observed), Now: noon}
			// Conditions of earlier resizes on the API server do not stay.
			in.Pod.Status.Conditions = []v1.PodCondition{
				{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: "Old"},
				{Type: v1.PodResizeInProgress, Status: v1.ConditionTrue, Reason: "Old"},
			}
			c.edit(&in)
			out := Generate(in)
			for kind, want := range map[v1.PodConditionType]string{v1.PodResizePending: c.pending, v1.PodResizeInProgress: c.progress} {
				got := condition(out.Conditions, kind)
				if want == "" {
					assert.Nil(t, got, kind)
					continue
				}
				require.NotNil(t, got, kind)
				assert.Equal(t, want, string(got.Status)+" "+got.Reason+" "+got.Message)
				assert.EqualValues(t, 3, got.ObservedGeneration)
			}
		})
	}
}

func TestResizeConditionsKeepTheirTime(t *testing.T) {
	at := func(d time.Duration, in Input, previous *v1.PodStatus) v1.PodStatus {
		in.Now, in.Previous = noon.Add(d), previous
		return Generate(in)
	}
	since := func(out v1.PodStatus) time.Duration {
		return condition(out.Conditions, v1.PodResizePending).LastTransitionTime.Sub(noon)
	}
	in := Input{Pod: podOf(t, always, "main a"), Observed: seen(t, "sandbox s", "a running"), ResizePending: &ResizePending{Reason: v1.PodReasonDeferred}}
	first := at(0, in, nil)
	in.ResizePending = &ResizePending{Reason: v1.PodReasonInfeasible}
	second := at(time.Minute, in, &first)
	assert.Zero(t, since(second), "another reason, the same condition")
	assert.Equal(t, time.Minute, since(at(time.Minute, in, &v1.PodStatus{})), "a new one")

	in.Pod.Status = first // the API server is behind: this one has gone since
	in.ResizePending = nil
	third := at(2*time.Minute, in, &second)
	in.ResizePending = &ResizePending{Reason: v1.PodReasonDeferred}
	assert.Equal(t, 3*time.Minute, since(at(3*time.Minute, in, &third)))
	assert.Zero(t, since(at(3*time.Minute, in, nil)), "but a new agent has only that to go by")
}

func TestContainerResourcesWhileResizing(t *testing.T) {
	for _, c := range []struct {
		name           string
		given          v1.ResourceRequirements
		actuated       *v1.ResourceRequirements
		reported       *v1.ResourceRequirements
		requests, want string
	}{
		{"not yet actuated", needs("cpu=2 memory=2Gi", "memory=4Gi"), new(needs("cpu=1 memory=1Gi", "memory=3Gi")), nil, "cpu=1 memory=1Gi", "memory=3Gi"},
		{"the runtime knows better", needs("cpu=2 memory=2Gi", "memory=4Gi"), new(needs("cpu=1 memory=1Gi", "memory=3Gi")), new(needs("cpu=1500m", "memory=2Gi")),
			"cpu=1500m memory=1Gi", "memory=2Gi"},
		{"too little for the runtime to tell", needs("cpu=1", "cpu=1"), new(needs("cpu=1m", "cpu=5m")), new(needs("cpu=2m", "cpu=10m")), "cpu=1m", "cpu=5m"},
		{"actuated with a thousandth", needs("cpu=1", "cpu=1"), new(needs("cpu=1m", "cpu=1m")), nil, "cpu=1m", "cpu=1m"},
		{"nothing is known", needs("cpu=2", ""), nil, nil, "cpu=2", ""},
		{"what the pod as a whole lends is not its own", needs("cpu=2", ""), new(needs("cpu=2 memory=1Gi", "memory=3Gi")), nil, "cpu=2", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := Input{Pod: podOf(t, always, "main a"), Observed: seen(t, "a running"), Now: noon}
			in.Pod.Spec.Containers[0].Resources, in.Observed.Containers[0].Resources = c.given, c.reported
			var asked []runtime.ContainerID
			in.Actuated = func(id runtime.ContainerID) (v1.ResourceRequirements, bool) {
				asked = append(asked, id)
				if c.actuated == nil {
					return needs("cpu=9", "cpu=9"), false
				}
				return *c.actuated, true
			}
			got := Generate(in).ContainerStatuses[0]
			assert.Equal(t, []runtime.ContainerID{in.Observed.Containers[0].ID}, asked)
			assertAmounts(t, c.requests, got.Resources.Requests)
			assertAmounts(t, c.want, got.Resources.Limits)
			assert.Equal(t, c.given.Requests, got.AllocatedResources, "allocated is what the spec says")

			asked, in.Observed.Containers[0].State = nil, runtime.StateExited
			assert.Equal(t, c.given.Requests, Generate(in).ContainerStatuses[0].Resources.Requests)
			assert.Empty(t, asked, "only what runs has anything")
		})
	}
}

func assertAmounts(t *testing.T, want string, got v1.ResourceList) {
	t.Helper()
	wanted := list(want)
	assert.Len(t, got, len(wanted))
	for name, amount := range wanted {
		actual := got[name]
		assert.Zero(t, amount.Cmp(actual), "%s: %s, want %s", name, actual.String(), amount.String())
	}
}
