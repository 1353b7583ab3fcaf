// SPDX-License-Identifier: Apache-2.0

package nodestatus_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus"
)

// heard stores the reasons of events about the node gw.
type heard struct {
	*testing.T
	mu      sync.Mutex
	reasons []string
}

func (h *heard) Event(object apiruntime.Object, eventType, reason, message string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	assert.Equal(h, &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "gw", UID: "gw"}, object)
	if reason == "Rebooted" {
		assert.Equal(h, v1.EventTypeWarning, eventType)
		assert.Equal(h, "Node gw has been rebooted, boot id: second", message)
	} else {
		assert.Equal(h, v1.EventTypeNormal, eventType)
		assert.Equal(h, "Node gw status is now: "+reason, message)
	}
	h.reasons = append(h.reasons, reason)
}

func (h *heard) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.reasons
	h.reasons = nil
	return all
}

// The events of a node show each change of readiness and pressure exactly once.
func TestChangesOfConditionsAreEvents(t *testing.T) {
	h := &heard{T: t}
	on(t, func(_ *server, o *nodestatus.Options) { o.Events = h }, func(t *testing.T, m *machine) {
		require.Equal(t, []string{"NodeReady"}, h.take())
		pass(20 * time.Minute)
		require.Empty(t, h.take())

		m.edit(func() { m.facts.NotReady = errors.New("the container runtime is down") })
		m.Poke()
		pass(10 * time.Minute)
		require.Equal(t, []string{"NodeNotReady"}, h.take())
		m.edit(func() {
			m.facts.NotReady = nil
			m.facts.Pressure = map[v1.NodeConditionType]bool{v1.NodeMemoryPressure: true}
		})
		m.Poke()
		pass(10 * time.Minute)
		require.ElementsMatch(t, []string{"NodeReady", "NodeHasInsufficientMemory"}, h.take())
		m.edit(func() { m.facts.Pressure = map[v1.NodeConditionType]bool{v1.NodeMemoryPressure: false} })
		m.Poke()
		pass(10 * time.Minute)
		require.Equal(t, []string{"NodeHasSufficientMemory"}, h.take())
	})
}

// A boot ID that differs from the one of the last status is an event; a first one is none.
func TestARebootIsAnEvent(t *testing.T) {
	h := &heard{T: t}
	on(t, func(_ *server, o *nodestatus.Options) { o.Events = h }, func(t *testing.T, m *machine) {
		for _, boot := range []string{"first", "second", "second"} {
			m.edit(func() { m.facts.Info.BootID = boot })
			m.Poke()
			pass(time.Second)
		}
		require.Equal(t, []string{"NodeReady", "Rebooted"}, h.take())
	})
}

// The events of a node show that it was cordoned, within a minute and once.
func TestACordonIsAnEvent(t *testing.T) {
	h := &heard{T: t}
	on(t, func(_ *server, o *nodestatus.Options) { o.Events = h }, func(t *testing.T, m *machine) {
		for _, reason := range []string{"NodeNotSchedulable", "NodeSchedulable"} {
			h.take()
			m.edit(func() { m.node.Spec.Unschedulable = reason == "NodeNotSchedulable" })
			pass(71 * time.Second)
			require.Equal(t, []string{reason}, h.take())
			pass(10 * time.Minute)
			require.Empty(t, h.take())
		}
	})
}
