// SPDX-License-Identifier: Apache-2.0

package nodestats

import "github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"

// machineUsage returns the usage of the machine, and its memory in bytes, 0 if unknown. With
// Options.Contained, both are those of the root of Cgroups.
func (c *Collector) machineUsage() (u host.Usage, memory int64) {
	u = c.Machine.Usage()
	memory, _ = c.Machine.Memory()
	if !c.Contained || c.Cgroups == nil {
		return u, memory
	}
	if used, ok := c.Cgroups.CPU("/"); ok {
		u.CPU = used
	}
	m, ok := c.Cgroups.Memory("/")
	if !ok {
		return u, memory
	}
	if limit := int64(m.Limit); limit > 0 && (memory <= 0 || limit < memory) {
		memory = limit
	}
	u.Memory = host.MemoryUsage{
		Used: m.Usage, WorkingSet: m.WorkingSet, Available: uint64(memory) - min(uint64(memory), m.WorkingSet),
		Anonymous: m.RSS, PageFaults: m.PageFaults, MajorPageFaults: m.MajorPageFaults,
	}
	return u, memory
}
