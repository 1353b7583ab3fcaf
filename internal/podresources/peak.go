// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"maps"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// Peak returns the most of each resource that the containers of a pod use at the same time. Regular
// containers and sidecars run together. Each other init container runs with the sidecars before it.
// of returns the resources of a container. The caller owns the result.
func Peak(spec *v1.PodSpec, of func(*v1.Container) v1.ResourceList) v1.ResourceList {
	together, peak := v1.ResourceList{}, v1.ResourceList{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if podfacts.IsSidecar(c) {
			Add(together, of(c))
			continue
		}
		beside := together.DeepCopy()
		Add(beside, of(c))
		raise(peak, beside)
	}
	for i := range spec.Containers {
		Add(together, of(&spec.Containers[i]))
	}
	raise(peak, together)
	return peak
}

// Requests returns the requests of a whole pod, as the scheduler (Kubernetes 1.36) computes them: the
// peak of the containers, replaced by pod-level requests, plus the overhead. The limit of a container
// replaces a missing request. The caller owns the result.
func Requests(pod *v1.Pod) v1.ResourceList {
	total := Peak(&pod.Spec, requestsOf)
	if whole := pod.Spec.Resources; whole != nil {
		for name, quantity := range whole.Requests {
			if IsPodLevel(name) {
				total[name] = quantity.DeepCopy()
			}
		}
	}
	Add(total, pod.Spec.Overhead)
	return total
}

// IsPodLevel reports whether spec.resources of a pod may have the resource (KEP-2837).
func IsPodLevel(name v1.ResourceName) bool {
	return name == v1.ResourceCPU || name == v1.ResourceMemory || IsHugePages(name)
}

// IsHugePages reports whether the resource is huge pages of some size.
func IsHugePages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// requestsOf returns the requests of a container. A limit replaces a missing request.
func requestsOf(c *v1.Container) v1.ResourceList {
	own := make(v1.ResourceList, len(c.Resources.Requests))
	for _, list := range []v1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		maps.Copy(own, list)
	}
	return own
}

func limitsOf(c *v1.Container) v1.ResourceList { return c.Resources.Limits }

// Add adds the quantities of list to sum.
func Add(sum, list v1.ResourceList) {
	for name, quantity := range list {
		total := sum[name].DeepCopy()
		total.Add(quantity)
		sum[name] = total
	}
}

// raise raises the quantities of most to those of list.
func raise(most, list v1.ResourceList) {
	for name, quantity := range list {
		if have, ok := most[name]; !ok || have.Cmp(quantity) < 0 {
			most[name] = quantity.DeepCopy()
		}
	}
}
