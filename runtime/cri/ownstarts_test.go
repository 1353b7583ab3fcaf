// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	eventCreated = api.ContainerEventType_CONTAINER_CREATED_EVENT
	eventStarted = api.ContainerEventType_CONTAINER_STARTED_EVENT
	eventStopped = api.ContainerEventType_CONTAINER_STOPPED_EVENT
	eventDeleted = api.ContainerEventType_CONTAINER_DELETED_EVENT
)

// Only the effects of an agent's own calls are hidden.
func TestOwnStartsAreNoHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var own ownStarts
		explained := func(uid types.UID, kind api.ContainerEventType, at time.Time) bool {
			return own.explain(uid, &api.ContainerEventResponse{ContainerEventType: kind, CreatedAt: at.UnixNano()})
		}
		assert.False(t, explained("u1", eventStarted, time.Now()), "somebody else's")
		end := own.begin("u1")
		assert.True(t, explained("u1", eventCreated, time.Now()), "the call is under way")
		assert.True(t, explained("u1", eventStarted, time.Now()))
		assert.False(t, explained("u1", eventStopped, time.Now()), "it ended at once")
		assert.False(t, explained("u1", eventDeleted, time.Now()))
		assert.False(t, explained("u2", eventStarted, time.Now()), "another pod")

		happened := time.Now()
		time.Sleep(time.Second)
		end()
		time.Sleep(time.Second)
		assert.True(t, explained("u1", eventStarted, happened), "told late")
		assert.False(t, explained("u1", eventStarted, time.Now()), "after the call: another client's")
		assert.False(t, own.explain("u1", &api.ContainerEventResponse{ContainerEventType: eventStarted}), "nobody knows when")

		first, second := own.begin("u3"), own.begin("u3")
		first()
		time.Sleep(time.Second)
		assert.True(t, explained("u3", eventStarted, time.Now()), "the other call is still under way")
		second()

		time.Sleep(2 * ownPatience)
		for range 3 * ownMemory {
			own.begin(types.UID(time.Now().String()))()
			time.Sleep(2 * ownPatience)
		}
		assert.LessOrEqual(t, len(own.mu.pods), ownMemory, "pods are not remembered for ever")
	})
}

func TestOwnContainersAreKnownUntilTheyStart(t *testing.T) {
	var own ownStarts
	own.begin("u1")()
	own.made("c1", "u1")
	assert.Equal(t, types.UID("u1"), own.ownerOf("c1"))
	assert.Empty(t, own.ownerOf("c1"), "not kept")
	assert.Empty(t, own.ownerOf("c2"), "another agent made it")
}
