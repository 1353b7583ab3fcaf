// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// annotationResources is keelson's own: the cpu and memory that a container was
// given when it was made, as the JSON of v1.ResourceRequirements.
const annotationResources = "keelson.dev/resources"

// demand is the cpu and memory of one container. 0: nothing asked for, no limit.
type demand struct {
	cpuRequest, cpuLimit       int64 // thousandths
	memoryRequest, memoryLimit int64 // bytes
}

// wantedBy is what c is to have in pod. A request that is not set is the limit,
// as API defaulting has it; a limit of the whole pod stands in for one that the
// container does not have (KEP-2837).
func wantedBy(pod *v1.Pod, c *v1.Container) demand {
	d := demandIn(&c.Resources)
	if _, set := c.Resources.Requests[v1.ResourceCPU]; !set {
		d.cpuRequest = d.cpuLimit
	}
	if _, set := c.Resources.Requests[v1.ResourceMemory]; !set {
		d.memoryRequest = d.memoryLimit
	}
	if pod.Spec.Resources != nil {
		whole := demandIn(pod.Spec.Resources)
		if d.cpuLimit == 0 {
			d.cpuLimit = whole.cpuLimit
		}
		if d.memoryLimit == 0 {
			d.memoryLimit = whole.memoryLimit
		}
	}
	return d
}

// demandIn is what r says, as it says it.
func demandIn(r *v1.ResourceRequirements) demand {
	return demand{
		cpuRequest:    cpuIn(r.Requests),
		cpuLimit:      cpuIn(r.Limits),
		memoryRequest: memoryIn(r.Requests),
		memoryLimit:   memoryIn(r.Limits),
	}
}

func cpuIn(list v1.ResourceList) int64 {
	q := list[v1.ResourceCPU]
	return max(q.MilliValue(), 0)
}

func memoryIn(list v1.ResourceList) int64 {
	q := list[v1.ResourceMemory]
	return max(q.Value(), 0)
}

// requirements is the inverse of demandIn. What is 0 is left out.
func (d demand) requirements() v1.ResourceRequirements {
	return v1.ResourceRequirements{
		Requests: resourceList(d.cpuRequest, d.memoryRequest),
		Limits:   resourceList(d.cpuLimit, d.memoryLimit),
	}
}

func resourceList(cpu, memory int64) v1.ResourceList {
	if cpu == 0 && memory == 0 {
		return nil
	}
	list := make(v1.ResourceList, 2)
	if cpu != 0 {
		list[v1.ResourceCPU] = *resource.NewMilliQuantity(cpu, resource.DecimalSI)
	}
	if memory != 0 {
		list[v1.ResourceMemory] = *resource.NewQuantity(memory, resource.BinarySI)
	}
	return list
}

// record is d as annotationResources has it.
func (d demand) record() string {
	text, _ := json.Marshal(d.requirements()) // quantities always have a JSON form
	return string(text)
}

// givenTo reads what c was given when it was made. False: there is no record of
// it, or it is damaged.
func givenTo(c *ContainerStatus) (demand, bool) {
	text, ok := c.Annotations[annotationResources]
	if !ok {
		return demand{}, false
	}
	var r v1.ResourceRequirements
	if json.Unmarshal([]byte(text), &r) != nil {
		return demand{}, false
	}
	return demandIn(&r), true
}

// with returns d with one resource as in e.
func (d demand) with(name v1.ResourceName, e demand) demand {
	if name == v1.ResourceCPU {
		d.cpuRequest, d.cpuLimit = e.cpuRequest, e.cpuLimit
	} else {
		d.memoryRequest, d.memoryLimit = e.memoryRequest, e.memoryLimit
	}
	return d
}

// of returns request and limit of one resource.
func (d demand) of(name v1.ResourceName) (request, limit int64) {
	if name == v1.ResourceCPU {
		return d.cpuRequest, d.cpuLimit
	}
	return d.memoryRequest, d.memoryLimit
}

// differs reports whether d and e are not the same in one resource.
func (d demand) differs(name v1.ResourceName, e demand) bool { return d.with(name, e) != d }

// falls reports whether a resource becomes less from d to e. The limit decides,
// if it changes; having none is having most.
func (d demand) falls(name v1.ResourceName, e demand) bool {
	request, limit := d.of(name)
	toRequest, toLimit := e.of(name)
	if limit != toLimit {
		return limitFalls(limit, toLimit)
	}
	return toRequest < request
}

func limitFalls(from, to int64) bool { return to != 0 && (from == 0 || to < from) }
