// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats/cgroup"
)

// pressures is the part of a measurement with pressure stall information.
type pressures struct {
	machine    cgroup.Pressure
	all        cgroup.Pressure // in the cgroup of all pods
	pods       map[types.UID]cgroup.Pressure
	containers map[string]cgroup.Pressure // by container ID, without the name of the runtime
}

// readPressures adds the pressure in the pods and containers, whose cgroups have been found.
func (c *Collector) readPressures(m *measurement) {
	if c.Cgroups == nil {
		return
	}
	m.pressure.pods, m.pressure.containers = map[types.UID]cgroup.Pressure{}, map[string]cgroup.Pressure{}
	for i := range m.listed {
		for j := range m.listed[i].Containers {
			id := m.listed[i].Containers[j].ID.ID
			if p := c.Cgroups.Pressure(c.Cgroups.Path(id)); p.IsKnown() {
				m.pressure.containers[id] = p
			}
			if _, known := m.pressure.pods[m.listed[i].UID]; known {
				continue
			}
			if p := c.Cgroups.Pressure(c.Cgroups.Parent(id)); p.IsKnown() {
				m.pressure.pods[m.listed[i].UID] = p
			}
		}
	}
}

// addPressure adds pressure to the usage of a node, a pod or a container, and returns that of its
// input and output. A usage that is absent stays absent.
func addPressure(cpu *statsapi.CPUStats, memory *statsapi.MemoryStats, at time.Time, p cgroup.Pressure) *statsapi.IOStats {
	if cpu != nil {
		cpu.PSI = psiStats(p.CPU)
	}
	if memory != nil {
		memory.PSI = psiStats(p.Memory)
	}
	if !p.IO.Known {
		return nil
	}
	return &statsapi.IOStats{Time: metav1.NewTime(at), PSI: psiStats(p.IO)}
}

// psiStats returns nil if the kernel does not tell.
func psiStats(s cgroup.Stall) *statsapi.PSIStats {
	if !s.Known {
		return nil
	}
	data := func(total time.Duration, a cgroup.Averages) statsapi.PSIData {
		return statsapi.PSIData{Total: uint64(total), Avg10: a[0], Avg60: a[1], Avg300: a[2]}
	}
	return &statsapi.PSIStats{Some: data(s.Some, s.SomeShare), Full: data(s.All, s.AllShare)}
}
