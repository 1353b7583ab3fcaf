// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime/fake"
)

// consistent checks that related parts of a status agree. It is a second, simple model of
// conditions and counts, and accepts undefined cases.
func consistent(pod *v1.Pod, status *v1.PodStatus) error {
	ready := len(status.ContainerStatuses) == len(pod.Spec.Containers)
	for i := range status.ContainerStatuses {
		c := &status.ContainerStatuses[i]
		ready = ready && c.Ready
		if c.Ready && c.State.Running == nil {
			return fmt.Errorf("container %s is published as ready, and not as running", c.Name)
		}
		spec := slices.IndexFunc(pod.Spec.Containers, func(s v1.Container) bool { return s.Name == c.Name })
		if spec < 0 {
			continue
		}
		probed := pod.Spec.Containers[spec].ReadinessProbe != nil || pod.Spec.Containers[spec].StartupProbe != nil
		if c.State.Running != nil && !c.Ready && !probed {
			return fmt.Errorf("container %s runs without a readiness or startup probe, and is not published as ready", c.Name)
		}
	}
	for _, kind := range []v1.PodConditionType{v1.ContainersReady, v1.PodReady} {
		i := slices.IndexFunc(status.Conditions, func(c v1.PodCondition) bool { return c.Type == kind })
		if i < 0 {
			return fmt.Errorf("there is no condition %s", kind)
		}
		// A pod with a sidecar that is not ready is not ready.
		waits := slices.ContainsFunc(status.InitContainerStatuses, func(c v1.ContainerStatus) bool { return !c.Ready })
		gated := kind == v1.PodReady && len(pod.Spec.ReadinessGates) > 0
		if ready && !waits && !gated && status.Conditions[i].Status != v1.ConditionTrue {
			return fmt.Errorf("all containers are ready, and condition %s is %s", kind, status.Conditions[i].Status)
		}
		if !ready && status.Conditions[i].Status != v1.ConditionFalse {
			return fmt.Errorf("a container is not ready, and condition %s is %s", kind, status.Conditions[i].Status)
		}
	}
	return nil
}

// countsRestarts checks that a restart count is at most the number of instances of the container,
// and includes the running instance.
func (p *player) countsRestarts(pod *v1.Pod, status *v1.PodStatus) error {
	made := make(map[string]int32)
	for _, e := range p.node.World.Journal() {
		if e.UID == pod.UID && (e.Op == fake.OpCreateContainer && e.Done || e.Op == fake.OpReplaced) {
			made[e.Container]++
		}
	}
	for _, list := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range list {
			if c := &list[i]; c.RestartCount > made[c.Name] {
				return fmt.Errorf("container %s has restart count %d, and %d instances of it were ever made", c.Name, c.RestartCount, made[c.Name])
			}
		}
	}
	return nil
}
