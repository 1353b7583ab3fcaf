// SPDX-License-Identifier: Apache-2.0

package fwk

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// resources implements framework.Resource.
type resources struct {
	cpu, memory, storage int64
	pods                 int
	scalars              map[v1.ResourceName]int64
}

// resourcesOf copies the amounts of package sim.
func resourcesOf(r *sim.Resources) *resources {
	out := &resources{cpu: r.CPU, memory: r.Memory, storage: r.Ephemeral, scalars: make(map[v1.ResourceName]int64, len(r.Scalars))}
	for _, scalar := range r.Scalars {
		out.scalars[scalar.Name] = scalar.Value
	}
	return out
}

func (r *resources) GetMilliCPU() int64                            { return r.cpu }
func (r *resources) GetMemory() int64                              { return r.memory }
func (r *resources) GetEphemeralStorage() int64                    { return r.storage }
func (r *resources) GetAllowedPodNumber() int                      { return r.pods }
func (r *resources) GetScalarResources() map[v1.ResourceName]int64 { return r.scalars }

// SetMaxResource implements framework.Resource.
func (r *resources) SetMaxResource(list v1.ResourceList) {
	for name, quantity := range list {
		switch name {
		case v1.ResourceCPU:
			r.cpu = max(r.cpu, quantity.MilliValue())
		case v1.ResourceMemory:
			r.memory = max(r.memory, quantity.Value())
		case v1.ResourceEphemeralStorage:
			r.storage = max(r.storage, quantity.Value())
		case v1.ResourcePods:
			r.pods = max(r.pods, int(quantity.Value()))
		default:
			r.scalars[name] = max(r.scalars[name], quantity.Value())
		}
	}
}

func (r *resources) clone() *resources {
	out := *r
	out.scalars = maps.Clone(r.scalars)
	return &out
}

// add adds sign times the requests of a pod.
func (r *resources) add(of framework.Resource, sign int64) {
	r.cpu += sign * of.GetMilliCPU()
	r.memory += sign * of.GetMemory()
	r.storage += sign * of.GetEphemeralStorage()
	for name, value := range of.GetScalarResources() {
		r.scalars[name] += sign * value
	}
}
