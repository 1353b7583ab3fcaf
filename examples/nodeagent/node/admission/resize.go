// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/semantic"
)

// Pending is the reason why an in-place resize is not granted.
type Pending struct {
	Reason  string // v1.PodReasonDeferred or v1.PodReasonInfeasible
	Message string
}

// Resized is the decision about a new version of a running pod.
type Resized struct {
	// Run is the demand of the version that runs: the new version, with the resources of the present
	// version while a resize is pending.
	Run *Demand
	// Granted reports that the new version requests other resources, and that the pod receives
	// these resources.
	Granted bool
	// Pending is nil unless the new version requests other resources that the node cannot give now.
	Pending *Pending
}

// Resize decides whether a running pod with the demand now may be resized to the demand wanted. used
// sums the demands of all active pods, including now. A resource that is not raised never prevents a
// resize.
func Resize(node *Node, used *Usage, now, wanted *Demand) Resized {
	if SameResources(now.Pod, wanted.Pod) {
		return Resized{Run: wanted}
	}
	if pending := pendingResize(node, used, now, wanted); pending != nil {
		return Resized{Run: DemandOf(WithResources(wanted.Pod, now.Pod)), Pending: pending}
	}
	return Resized{Run: wanted, Granted: true}
}

// pendingResize returns the reason why a resize cannot be granted now, nil if there is none.
func pendingResize(node *Node, used *Usage, now, wanted *Demand) *Pending {
	used.Remove(now)
	defer used.Add(now)
	for _, short := range fits(node, used, wanted) {
		if short.Resource == v1.ResourcePods || short.Requested <= now.Of(short.Resource) {
			continue
		}
		if short.Requested > short.Capacity {
			return &Pending{Reason: v1.PodReasonInfeasible, Message: fmt.Sprintf(
				"Node didn't have enough capacity: %s, requested: %d, capacity: %d", short.Resource, short.Requested, short.Capacity)}
		}
		return &Pending{Reason: v1.PodReasonDeferred, Message: fmt.Sprintf(
			messageNodeResources, short.Resource, short.Requested, short.Used, short.Capacity)}
	}
	return nil
}

// SameResources reports whether two versions of a pod request the same resources.
func SameResources(a, b *v1.Pod) bool {
	return sameOf(a.Spec.Containers, b.Spec.Containers) && sameOf(a.Spec.InitContainers, b.Spec.InitContainers) &&
		semantic.Equal(&a.Spec.Resources, &b.Spec.Resources)
}

func sameOf(a, b []v1.Container) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !semantic.Equal(&a[i].Resources, &b[i].Resources) {
			return false
		}
	}
	return true
}

// WithResources returns wanted with the resources of now, for containers in both. A pod runs in
// this version while a resize is pending. The result shares memory with both arguments and must not
// be written.
func WithResources(wanted, now *v1.Pod) *v1.Pod {
	out := *wanted
	out.Spec.Resources = now.Spec.Resources
	out.Spec.Containers = resourcesOf(wanted.Spec.Containers, now.Spec.Containers)
	out.Spec.InitContainers = resourcesOf(wanted.Spec.InitContainers, now.Spec.InitContainers)
	return &out
}

// resourcesOf returns the containers wanted with the resources of the containers now.
func resourcesOf(wanted, now []v1.Container) []v1.Container {
	byName := make(map[string]*v1.Container, len(now))
	for i := range now {
		byName[now[i].Name] = &now[i]
	}
	out := append([]v1.Container(nil), wanted...)
	for i := range out {
		if c := byName[out[i].Name]; c != nil {
			out[i].Resources = c.Resources
		}
	}
	return out
}

// Allocated returns the demand of a pod with the resources allocated according to its status. If they
// equal the spec, the result is own. After a restart of the agent, the status is the only record of the
// allocated resources.
func Allocated(own *Demand) *Demand {
	pod := own.Pod
	given := make(map[string]*v1.ContainerStatus)
	for s := range podfacts.Statuses(&pod.Status) {
		if s.AllocatedResources != nil && s.Resources != nil {
			given[s.Name] = s
		}
	}
	if len(given) == 0 {
		return own
	}
	now := pod.DeepCopy()
	for c := range podfacts.Containers(&now.Spec) {
		if s := given[c.Name]; s != nil {
			c.Resources.Requests = s.AllocatedResources.DeepCopy()
			c.Resources.Limits = s.Resources.Limits.DeepCopy() // allocatedResources has no limits
		}
	}
	if SameResources(now, pod) {
		return own
	}
	return DemandOf(now)
}
