// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// RetryAt is the earliest time of all waiting steps, whatever their order.
func TestRetryAtIsTheEarliest(t *testing.T) {
	now := time.Now()
	wait := func(d time.Duration) Step { return Step{Err: &StepError{RetryAt: now.Add(d)}} }
	for _, steps := range [][]Step{
		{wait(1), wait(2), wait(3)}, {wait(3), wait(2), wait(1)}, {{}, wait(2), {Err: &StepError{}}, wait(1), wait(3)},
	} {
		at, again := Result{Steps: steps}.RetryAt()
		assert.True(t, again)
		assert.Equal(t, now.Add(1), at)
	}
	at, again := Result{Steps: []Step{wait(2)}, again: now.Add(1)}.RetryAt()
	assert.True(t, again)
	assert.Equal(t, now.Add(1), at, "work that is left")
	_, again = Result{Steps: []Step{{}}}.RetryAt()
	assert.False(t, again)
}

// The last failure of each container stays, over several calls, until the container starts.
func TestStartFailuresOfSeveralContainers(t *testing.T) {
	failed := func(name string) Step {
		return Step{Action: StartContainer, Target: name, Err: &StepError{Reason: ErrImagePull, Cause: errors.New(name)}}
	}
	var f StartFailures
	f.Apply([]Step{failed("a"), failed("b")})
	f.Apply([]Step{failed("c"), {Action: StartContainer, Target: "a"}})
	assert.Len(t, f, 2)
	assert.Equal(t, "b", f["b"].Message)
	assert.Equal(t, "c", f["c"].Message)
}

// Only an API server's error with the reason NotFound means that an object is missing.
func TestIsMissing(t *testing.T) {
	maps := schema.GroupResource{Resource: "configmaps"}
	assert.True(t, isMissing(ErrNotFound))
	assert.True(t, isMissing(apierrors.NewNotFound(maps, "a")))
	assert.False(t, isMissing(apierrors.NewForbidden(maps, "a", errors.New("no"))))
	assert.False(t, isMissing(errors.New("away")))
}

// A plan resizes if it updates a container, stops a container for its new resources, or puts a
// resize off.
func TestPlansThatResize(t *testing.T) {
	changed, resized := Kill{Reason: killSpecChanged}, Kill{Reason: killResize}
	for _, plan := range []Actions{
		{ResizeWaits: true}, {Resize: make([]Resize, 1)}, {Kill: []Kill{resized}}, {Kill: []Kill{changed, resized}},
	} {
		assert.True(t, plan.resizing(), "%v", plan)
	}
	for _, plan := range []Actions{{}, {Kill: []Kill{changed}, Start: make([]Start, 1)}} {
		assert.False(t, plan.resizing(), "%v", plan)
	}
}

// A step that waits for a known time did not fail, and holds up no further pass.
func TestStepsThatBroke(t *testing.T) {
	waits, fails := Step{Err: &StepError{RetryAt: time.Now()}}, Step{Err: &StepError{}}
	assert.False(t, (&steps{list: []Step{{}, waits}}).broke())
	assert.True(t, (&steps{list: []Step{waits, fails}}).broke())
}

// The predecessor of an instance that is killed first has ended just now.
func TestPredecessorThatIsKilled(t *testing.T) {
	for _, state := range []State{StateRunning, StateUnknown} {
		p := &pass{status: &PodStatus{Containers: []ContainerStatus{{Name: "c", State: state, RestartCount: 2}}}}
		previous := p.previous(&unit{start: &Start{Name: "c"}})
		assert.Equal(t, StateExited, previous.State, state)
		assert.NotZero(t, previous.FinishedAt, state)
		assert.EqualValues(t, 2, previous.RestartCount, state)
	}
}

// Only the failed kill of a container that was to be killed for its resources is a resize under way.
func TestFailedKillForAResize(t *testing.T) {
	for container, want := range map[string]bool{"a": true, "b": false} {
		var r Resizing
		r.Apply(Result{
			Plans: []Actions{{Kill: []Kill{{Name: "a", Reason: killResize}, {Name: "b", Reason: killSpecChanged}}}},
			Steps: []Step{{Action: KillContainer, Target: container, Err: &StepError{Cause: errors.New("busy")}}},
		})
		assert.Equal(t, want, r.UnderWay, container)
	}
}

// Events refer to the pod by all that identifies it.
func TestEventsNameThePod(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u", ResourceVersion: "7"}}
	assert.Equal(t, &v1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "web", UID: "u", ResourceVersion: "7",
	}, podfacts.Reference(pod))
}

// A log folder that cannot be looked at is told.
func TestRemovePodLogsTellsOfAFailure(t *testing.T) {
	err := RemovePodLogs(t.TempDir(), "ns", strings.Repeat("x", 300), "u")
	assert.ErrorContains(t, err, "remove the logs of pod u: ")
}

// The progress of a resize follows from the plans and steps of a call. A call that could not read the
// pod changes nothing.
func TestResizingFollowsTheCall(t *testing.T) {
	cause := errors.New("away")
	update, done := Actions{Resize: make([]Resize, 1)}, Step{Action: ResizePodInPlace}
	before := Resizing{UnderWay: true, Error: "before"}
	for name, tc := range map[string]struct {
		result Result
		want   Resizing
	}{
		"not read":                {Result{err: cause}, before},
		"nothing to do":           {Result{}, Resizing{}},
		"other work, not read":    {Result{Plans: []Actions{{}}, err: cause}, Resizing{}},
		"waits, not read":         {Result{ResizeWaits: true, err: cause}, Resizing{UnderWay: true}},
		"planned first":           {Result{Plans: []Actions{update, {}}}, Resizing{UnderWay: true}},
		"planned last":            {Result{Plans: []Actions{{}, update}}, Resizing{UnderWay: true}},
		"done after another step": {Result{Plans: []Actions{update}, Steps: []Step{{Action: StartContainer}, done}}, Resizing{}},
		"the start fails after the kill for the resize": {Result{
			Plans: []Actions{{Kill: []Kill{{Name: "a", Reason: killResize}}}},
			Steps: []Step{{Action: StartContainer, Target: "a", Err: &StepError{Cause: cause}}},
		}, Resizing{}},
	} {
		r := before
		r.Apply(tc.result)
		assert.Equal(t, tc.want, r, name)
	}
}
