// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"encoding/json"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/quantities"
)

// annotationResources is keelson's own annotation: the cpu and memory of a container at its
// creation, as the JSON of v1.ResourceRequirements.
const annotationResources = "keelson.dev/resources"

// demand is the cpu and memory of a container. 0: no request, no limit.
type demand struct {
	cpuRequest, cpuLimit       int64 // thousandths
	memoryRequest, memoryLimit int64 // bytes
}

// wantedBy returns the demand of c in pod. As in API defaulting, an unset request is equal to the
// limit. If the container has no limit, the limit of the whole pod applies (KEP-2837).
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

// demandIn returns the values of r, without defaulting.
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
	return max(quantities.Milli(q), 0)
}

func memoryIn(list v1.ResourceList) int64 {
	q := list[v1.ResourceMemory]
	return max(quantities.Value(q), 0)
}

// requirements is the inverse of demandIn. Zero values are omitted.
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

// record returns d in the form of annotationResources.
func (d demand) record() string {
	lists := make([]string, 0, 2)
	add := func(name string, cpu, memory int64) {
		values := make([]string, 0, 2)
		if cpu != 0 {
			values = append(values, `"cpu":"`+resource.NewMilliQuantity(cpu, resource.DecimalSI).String()+`"`)
		}
		if memory != 0 {
			values = append(values, `"memory":"`+resource.NewQuantity(memory, resource.BinarySI).String()+`"`)
		}
		if len(values) > 0 {
			lists = append(lists, `"`+name+`":{`+strings.Join(values, ",")+`}`)
		}
	}
	add("limits", d.cpuLimit, d.memoryLimit)
	add("requests", d.cpuRequest, d.memoryRequest)
	return "{" + strings.Join(lists, ",") + "}"
}

// givenTo returns the resources of c at its creation, which usually are wanted. The second result is
// false for a missing or damaged record.
func givenTo(c *ContainerStatus, wanted demand) (demand, bool) {
	text, ok := c.Annotations[annotationResources]
	switch {
	case !ok:
		return demand{}, false
	case text == wanted.record():
		return wanted, true
	}
	var r v1.ResourceRequirements
	if json.Unmarshal([]byte(text), &r) != nil {
		return demand{}, false
	}
	return demandIn(&r), true
}

// with returns d with the values of e for a single resource.
func (d demand) with(name v1.ResourceName, e demand) demand {
	if name == v1.ResourceCPU {
		d.cpuRequest, d.cpuLimit = e.cpuRequest, e.cpuLimit
	} else {
		d.memoryRequest, d.memoryLimit = e.memoryRequest, e.memoryLimit
	}
	return d
}

// of returns request and limit of a single resource.
func (d demand) of(name v1.ResourceName) (request, limit int64) {
	if name == v1.ResourceCPU {
		return d.cpuRequest, d.cpuLimit
	}
	return d.memoryRequest, d.memoryLimit
}

// differs reports whether d and e differ in a resource.
func (d demand) differs(name v1.ResourceName, e demand) bool { return d.with(name, e) != d }

// falls reports whether a resource decreases from d to e. A changed limit decides. No limit is the
// highest limit.
func (d demand) falls(name v1.ResourceName, e demand) bool {
	request, limit := d.of(name)
	toRequest, toLimit := e.of(name)
	if limit != toLimit {
		return limitFalls(limit, toLimit)
	}
	return toRequest < request
}

func limitFalls(from, to int64) bool { return to != 0 && (from == 0 || to < from) }
