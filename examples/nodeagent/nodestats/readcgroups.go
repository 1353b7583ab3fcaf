// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/runtime/stats"
)

// groups is the part of a measurement with the cgroups of the containers.
type groups struct {
	usage      map[string]*Cgroup // by container ID, without the name of the runtime
	capacities map[string]uint64  // of the file systems of containers, in bytes, by a folder
	devices    map[string]string  // names of block devices by number
}

// readNetworks finds the cgroups of the containers, and adds the networks and the numbers of processes
// of the pods.
func (c *Collector) readNetworks(m *measurement) {
	var ids []string
	for i := range m.listed {
		for j := range m.listed[i].Containers {
			ids = append(ids, m.listed[i].Containers[j].ID.ID)
		}
	}
	c.Cgroups.Find(ids)
	maps.DeleteFunc(c.processes, func(id string, _ int) bool { return c.Cgroups.Path(id) == "" })
	m.network, m.tasks = make(map[types.UID]Network, len(m.listed)), make(map[types.UID]uint64, len(m.listed))
	for i := range m.listed {
		p := &m.listed[i]
		for j := range p.Containers {
			m.tasks[p.UID] += c.Cgroups.Tasks(p.Containers[j].ID.ID)
		}
		if n, ok := c.network(p, m.byUID[p.UID]); ok {
			m.network[p.UID] = n
		}
	}
}

// readGroups reads the cgroups of the containers, and the sizes of the file systems of containers.
func (c *Collector) readGroups(m *measurement) *groups {
	g := &groups{usage: make(map[string]*Cgroup, len(m.listed)), capacities: map[string]uint64{}, devices: map[string]string{}}
	for i := range m.listed {
		for j := range m.listed[i].Containers {
			one := &m.listed[i].Containers[j]
			if folder := one.WritableLayer.Mountpoint; folder != "" && g.capacities[folder] == 0 {
				g.capacities[folder] = uint64(systemOf(folder).bytes)
			}
			if c.Cgroups == nil {
				continue
			}
			u, ok := c.Cgroups.Usage(one.ID.ID)
			if !ok {
				continue
			}
			g.usage[one.ID.ID] = &Cgroup{Path: c.Cgroups.Path(one.ID.ID), At: time.Now(), Usage: u}
			for _, io := range u.IO {
				if g.devices[io.Device] == "" {
					g.devices[io.Device] = c.deviceName(io.Device)
				}
			}
		}
	}
	return g
}

// cgroupUsage is the usage of a cgroup with all cgroups below.
type cgroupUsage struct {
	stats.Container           // its times are zero if the cgroup is not known
	limit           uint64    // of memory; 0: none
	made            time.Time // zero: not known
}

// podsUsage reads the cgroup of all pods.
func (c *Collector) podsUsage() (u cgroupUsage) {
	if c.PodsCgroup == "" || c.Cgroups == nil {
		return u
	}
	u.Name, u.made = statsapi.SystemContainerPods, c.Cgroups.Made(c.PodsCgroup)
	if used, ok := c.Cgroups.CPU(c.PodsCgroup); ok {
		u.CPU = stats.CPU{At: time.Now(), UsageNanoseconds: uint64(used)}
	}
	if m, ok := c.Cgroups.Memory(c.PodsCgroup); ok {
		now := time.Now()
		u.Memory = stats.Memory{At: now, Usage: m.Usage, WorkingSet: m.WorkingSet, RSS: m.RSS, PageFaults: m.PageFaults, MajorPageFaults: m.MajorPageFaults}
		u.Swap, u.limit = stats.Swap{At: now, Used: m.Swap}, m.Limit
	}
	return u
}

// network reads the interfaces of a pod by way of a process in it. A pod on the node's network has
// none of its own.
func (c *Collector) network(p *stats.Pod, pod *v1.Pod) (n Network, ok bool) {
	if pod == nil || pod.Spec.HostNetwork {
		return n, false
	}
	for i := range p.Containers {
		id := p.Containers[i].ID.ID
		for _, pid := range []int{c.processes[id], 0} { // first the process of the last measurement
			if pid == 0 {
				if pid = c.Cgroups.Process(id); pid == 0 {
					break
				}
			}
			n = Network{Cgroup: c.Cgroups.Parent(id), At: time.Now(), Interfaces: c.Machine.Interfaces(strconv.Itoa(pid))}
			if c.Cgroups.Process(id) == pid { // else the number may be that of another process by now
				c.processes[id] = pid
				return n, len(n.Interfaces) > 0
			}
			delete(c.processes, id)
		}
	}
	return n, false
}

// deviceName returns the path of a block device, or its number.
func (c *Collector) deviceName(number string) string {
	target, err := os.Readlink(filepath.Join(c.Machine.Root, "/sys/dev/block", number))
	if err != nil {
		return number
	}
	return "/dev/" + filepath.Base(target)
}
