// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/stretchr/testify/assert"
)

// TestEventsDoNotPutTheNextLookOff: a runtime with events asks for a look at each of them, a dozen when pods are removed.
// The look that ends a removal comes a second later all the same.
func TestEventsDoNotPutTheNextLookOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var next nextLook
		began := time.Now()
		for second := range 10 {
			for range 12 {
				next.plan(3)
			}
			<-next.at
			next.at = nil // as cleanForever does
			assert.Equal(t, time.Duration(second+1)*time.Second, time.Since(began))
		}
		look := func() time.Duration {
			began := time.Now()
			next.plan(1)
			<-next.at
			next.at = nil
			return time.Since(began)
		}
		for range 40 {
			look()
		}
		assert.Equal(t, cleanInterval, look(), "of what stays")
		next.plan(0)
		assert.Nil(t, next.at)
		assert.Equal(t, time.Second, look())
	})
}

func TestAnnotate(t *testing.T) {
	status := v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
		{State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}},
		{State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "own"}}},
		{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
	}}
	annotate(&status, "no disk")
	assert.Equal(t, "no disk", status.ContainerStatuses[0].State.Waiting.Message)
	assert.Equal(t, "own", status.ContainerStatuses[1].State.Waiting.Message)
	annotate(&status, "")
	assert.Empty(t, status.ContainerStatuses[0].State.Waiting.Message)
}
