// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/runtime/stats"
)

// readCgroups adds the values of the containers' cgroups to a snapshot.
func (c *Collector) readCgroups(s *Snapshot, d Detail) {
	var ids []string
	for i := range s.Containers {
		for j := range s.Containers[i].Containers {
			ids = append(ids, s.Containers[i].Containers[j].ID.ID)
		}
	}
	c.Cgroups.Find(ids)
	s.Networks, s.Tasks = map[types.UID]Network{}, map[types.UID]uint64{}
	for i := range s.Containers {
		p := &s.Containers[i]
		for j := range p.Containers {
			s.Tasks[p.UID] += c.Cgroups.Tasks(p.Containers[j].ID.ID)
		}
		if n, ok := c.network(p, s.Pods[p.UID]); ok {
			s.Networks[p.UID] = n
		}
	}
	if d != Containers {
		return
	}
	s.Cgroups, s.devices = map[string]Cgroup{}, map[string]string{}
	for _, id := range ids {
		u, ok := c.Cgroups.Usage(id)
		if !ok {
			continue
		}
		s.Cgroups[id] = Cgroup{Path: c.Cgroups.Path(id), Usage: u}
		for _, io := range u.IO {
			if s.devices[io.Device] == "" {
				s.devices[io.Device] = c.deviceName(io.Device)
			}
		}
	}
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

// readCapacities adds the sizes of the file systems of containers.
func (s *Snapshot) readCapacities() {
	s.capacities = map[string]uint64{}
	for i := range s.Containers {
		for j := range s.Containers[i].Containers {
			if folder := s.Containers[i].Containers[j].WritableLayer.Mountpoint; folder != "" && s.capacities[folder] == 0 {
				s.capacities[folder] = uint64(systemOf(folder).bytes)
			}
		}
	}
}

// network reads the interfaces of a pod by way of a process in it. A pod on the node's network has
// none of its own.
func (c *Collector) network(p *stats.Pod, pod *v1.Pod) (n Network, ok bool) {
	if pod == nil || pod.Spec.HostNetwork {
		return n, false
	}
	for i := range p.Containers {
		id := p.Containers[i].ID.ID
		pid := c.Cgroups.Process(id)
		if pid == 0 {
			continue
		}
		n = Network{Cgroup: c.Cgroups.Parent(id), At: time.Now(), Interfaces: c.Machine.Interfaces(strconv.Itoa(pid))}
		if c.Cgroups.Process(id) == pid { // else the number may be that of another process by now
			return n, len(n.Interfaces) > 0
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
