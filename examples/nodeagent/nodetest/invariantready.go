// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// readiness checks that ContainersReady is False if a container of the status is not ready, and
// True if all are ready. Otherwise a client that reads the condition and a client that reads the
// containers would disagree.
func (c *checker) readiness() {
	for _, s := range c.h.Statuses {
		said := conditionOf(&s.Status, v1.ContainersReady)
		if said == nil || podfacts.IsTerminal(s.Status.Phase) {
			continue
		}
		if all := allReady(&s.Pod.Spec, &s.Status); all != (said.Status == v1.ConditionTrue) {
			c.violate(s.At, "%s: ContainersReady is %s (%s), and that all containers are ready is %t", s.Pod.UID, said.Status, said.Message, all)
		}
	}
}

func conditionOf(status *v1.PodStatus, t v1.PodConditionType) *v1.PodCondition {
	i := slices.IndexFunc(status.Conditions, func(c v1.PodCondition) bool { return c.Type == t })
	if i < 0 {
		return nil
	}
	return &status.Conditions[i]
}

// allReady reports whether all regular containers and sidecars of the spec are ready.
func allReady(spec *v1.PodSpec, status *v1.PodStatus) bool {
	ready := func(list []v1.ContainerStatus, name string) bool {
		return slices.ContainsFunc(list, func(s v1.ContainerStatus) bool { return s.Name == name && s.Ready })
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; podfacts.IsSidecar(c) && !ready(status.InitContainerStatuses, c.Name) {
			return false
		}
	}
	return !slices.ContainsFunc(spec.Containers, func(c v1.Container) bool { return !ready(status.ContainerStatuses, c.Name) })
}
