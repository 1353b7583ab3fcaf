// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// resizes checks that if a status shows allocated resources that a running container does not have
// yet, the status also shows the resize in progress. Otherwise a client that waits for the resize
// would take it as finished, with the old resources (kubernetes, [Conformance] Pod InPlace Resize).
func (c *checker) resizes() {
	for _, s := range c.h.Statuses {
		life, _ := c.spanAt(s.Pod.UID, s.At)
		ending := s.Pod.DeletionTimestamp != nil || podfacts.IsTerminal(s.Status.Phase) || s.At >= life.to
		if ending || podconfig.IsStatic(s.Pod) { // such pods are not resized
			continue
		}
		inProgress := slices.ContainsFunc(s.Status.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.PodResizeInProgress && c.Status == v1.ConditionTrue
		})
		for i := range s.Status.ContainerStatuses {
			status := &s.Status.ContainerStatuses[i]
			if status.State.Running == nil || status.Resources == nil || inProgress || c.strange(status.ContainerID, s.At) {
				continue
			}
			for name, allocated := range status.AllocatedResources {
				if has := status.Resources.Requests[name]; has.Cmp(allocated) != 0 {
					c.violate(s.At, "%s/%s: %s of %s is allocated, %s is given, and no resize is in progress", s.Pod.UID, status.Name, &allocated, name, &has)
				}
			}
		}
	}
}

// strange reports whether the agent has not given resources to an instance yet, because a fault and
// not the agent started the instance. Its resources are the fault's, and no resize is in progress.
func (c *checker) strange(containerID string, at time.Duration) bool {
	_, id, _ := strings.Cut(containerID, "://")
	if i := c.byID[id]; i == nil || i.called >= 0 {
		return false
	}
	return !slices.ContainsFunc(c.h.Calls, func(e fake.Entry) bool {
		return e.Op == fake.OpUpdateResources && e.ID == id && e.Done && e.DoneAt < at
	})
}
