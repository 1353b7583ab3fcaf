// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
