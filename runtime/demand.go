// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"encoding/json"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/podresources"
)

// annotationResources is keelson's own annotation: the cpu and memory of a container at its
// creation, as the JSON of v1.ResourceRequirements.
const annotationResources = "keelson.dev/resources"

// demand is the cpu and memory of a container. 0: no request, no limit.
type demand podresources.Demand

// wantedBy returns the demand of c in pod, with the defaults of the API.
func wantedBy(pod *v1.Pod, c *v1.Container) demand { return demand(podresources.OfContainer(pod, c)) }

// demandIn returns the values of r, without defaulting.
func demandIn(r *v1.ResourceRequirements) demand { return demand(podresources.Stated(r)) }

// requirements is the inverse of demandIn. Zero values are omitted.
func (d demand) requirements() v1.ResourceRequirements {
	return v1.ResourceRequirements{
		Requests: resourceList(d.CPURequest, d.MemoryRequest),
		Limits:   resourceList(d.CPULimit, d.MemoryLimit),
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
	add("limits", d.CPULimit, d.MemoryLimit)
	add("requests", d.CPURequest, d.MemoryRequest)
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
		d.CPURequest, d.CPULimit = e.CPURequest, e.CPULimit
	} else {
		d.MemoryRequest, d.MemoryLimit = e.MemoryRequest, e.MemoryLimit
	}
	return d
}

// of returns request and limit of a single resource.
func (d demand) of(name v1.ResourceName) (request, limit int64) {
	if name == v1.ResourceCPU {
		return d.CPURequest, d.CPULimit
	}
	return d.MemoryRequest, d.MemoryLimit
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
