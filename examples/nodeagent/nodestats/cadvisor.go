// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"cmp"
	"io"
	"os"
	goruntime "runtime"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/internal/exposition"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats/cgroup"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/internal/quantities"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// WriteContainerMetrics writes the metrics of /metrics/cadvisor under the names of cadvisor, for
// dashboards. The snapshot must have the detail Containers. Metrics that neither the runtime nor a
// cgroup tells are left out. The error is that of w.
func WriteContainerMetrics(w io.Writer, s *Snapshot) error {
	out := exposition.NewWriter(w)
	all := containersOf(s)
	writeMachine(out, s)
	writeProcessor(out, all)
	writeMemory(out, all)
	writeFileSystems(out, s, all)
	writeNetworks(out, s)
	writeSpecs(out, all)
	writePressure(out, all)
	return out.Flush()
}

// container is a container, or the node, with all that is known of it.
type container struct {
	labels exposition.Labels
	stats  *stats.Container
	cgroup *Cgroup       // nil: not known
	spec   *v1.Container // nil: not known
	start  time.Time     // zero: not known
}

// containersOf returns the containers with their labels, after the node as the container "/".
func containersOf(s *Snapshot) []container {
	node := &stats.Container{
		CPU:    stats.CPU{At: s.At, UsageNanoseconds: uint64(s.Machine.CPU)},
		Memory: stats.Memory{At: s.At, Usage: s.Machine.Memory.Used, WorkingSet: s.Machine.Memory.WorkingSet, RSS: s.Machine.Memory.Anonymous},
		Swap:   stats.Swap{At: s.At, Used: s.Machine.SwapUsed, Available: s.Machine.SwapFree},
	}
	all := make([]container, 0, 1+len(s.Containers))
	all = append(all, container{labels: labelsOf("", "/", "", "", "", ""), stats: node, start: s.Machine.Boot})
	for i := range s.Containers {
		p := &s.Containers[i]
		pod := s.Pods[p.UID]
		for j := range p.Containers {
			c := &p.Containers[j]
			one := container{stats: c}
			image := ""
			if pod != nil {
				one.spec = containerSpec(pod, c.Name)
				if status := containerStatus(pod, c.ID); status != nil {
					image = status.Image
					if status.State.Running != nil {
						one.start = status.State.Running.StartedAt.Time
					}
				}
			}
			one.cgroup = s.Cgroups[c.ID.ID]
			path := ""
			if one.cgroup != nil {
				path = one.cgroup.Path
			}
			one.labels = labelsOf(c.Name, path, image, c.ID.ID, p.Namespace, p.Name)
			all = append(all, one)
		}
	}
	return all
}

// labelsOf returns the labels of cadvisor, in its order.
func labelsOf(name, id, image, containerID, namespace, pod string) exposition.Labels {
	return exposition.Labels{}.With("container", name, "id", id, "image", image, "name", containerID, "namespace", namespace, "pod", pod)
}

func writeMachine(out *exposition.Writer, s *Snapshot) {
	out.Metric("machine_cpu_cores", exposition.Gauge, "Number of logical processors.")
	out.Sample(exposition.Labels{}, float64(goruntime.NumCPU()), time.Time{})
	if s.MemoryCapacity > 0 {
		out.Metric("machine_memory_bytes", exposition.Gauge, "Memory of the machine in bytes.")
		out.Sample(exposition.Labels{}, float64(s.MemoryCapacity), time.Time{})
	}
	if swap := s.Machine.SwapUsed + s.Machine.SwapFree; s.MemoryCapacity > 0 {
		out.Metric("machine_swap_bytes", exposition.Gauge, "Swap of the machine in bytes.")
		out.Sample(exposition.Labels{}, float64(swap), time.Time{})
	}
}

// metric writes one sample for each container that has the value.
func metric(out *exposition.Writer, name, kind, help string, all []container, value func(c *container) (v float64, at time.Time, known bool)) {
	out.Metric(name, kind, help)
	for i := range all {
		if v, at, known := value(&all[i]); known {
			out.Sample(all[i].labels, v, at)
		}
	}
}

// group returns a value function for values of cgroups.
func group(value func(u *cgroup.Usage) float64) func(*container) (float64, time.Time, bool) {
	return func(c *container) (float64, time.Time, bool) {
		if c.cgroup == nil {
			return 0, time.Time{}, false
		}
		return value(&c.cgroup.Usage), c.cgroup.At, true
	}
}

func writeProcessor(out *exposition.Writer, all []container) {
	total := exposition.Labels{}.With("cpu", "total")
	out.Metric("container_cpu_usage_seconds_total", exposition.Counter, "Processor time in core-seconds.")
	for i := range all {
		if u := all[i].stats.CPU; !u.At.IsZero() {
			out.SampleWith(all[i].labels, total, float64(u.UsageNanoseconds)/1e9, u.At)
		}
	}
	metric(out, "container_cpu_user_seconds_total", exposition.Counter, "Processor time of programs in core-seconds.", all,
		group(func(u *cgroup.Usage) float64 { return u.User.Seconds() }))
	metric(out, "container_cpu_system_seconds_total", exposition.Counter, "Processor time of the kernel in core-seconds.", all,
		group(func(u *cgroup.Usage) float64 { return u.System.Seconds() }))
	limited := func(value func(u *cgroup.Usage) float64) func(*container) (float64, time.Time, bool) {
		return func(c *container) (float64, time.Time, bool) {
			if c.cgroup == nil || c.cgroup.Usage.Periods == 0 {
				return 0, time.Time{}, false
			}
			return value(&c.cgroup.Usage), c.cgroup.At, true
		}
	}
	metric(out, "container_cpu_cfs_periods_total", exposition.Counter, "Periods in which the limit was enforced.", all,
		limited(func(u *cgroup.Usage) float64 { return float64(u.Periods) }))
	metric(out, "container_cpu_cfs_throttled_periods_total", exposition.Counter, "Periods in which the limit was reached.", all,
		limited(func(u *cgroup.Usage) float64 { return float64(u.ThrottledPeriods) }))
	metric(out, "container_cpu_cfs_throttled_seconds_total", exposition.Counter, "Time in which the container was throttled in seconds.", all,
		limited(func(u *cgroup.Usage) float64 { return u.ThrottledTime.Seconds() }))
}

func writeMemory(out *exposition.Writer, all []container) {
	memory := func(value func(m *stats.Memory) uint64) func(*container) (float64, time.Time, bool) {
		return func(c *container) (float64, time.Time, bool) {
			m := &c.stats.Memory
			return float64(value(m)), m.At, !m.At.IsZero()
		}
	}
	metric(out, "container_memory_working_set_bytes", exposition.Gauge, "Working set in bytes.", all, memory(func(m *stats.Memory) uint64 { return m.WorkingSet }))
	metric(out, "container_memory_usage_bytes", exposition.Gauge, "Used memory including caches in bytes.", all, memory(func(m *stats.Memory) uint64 { return m.Usage }))
	metric(out, "container_memory_rss", exposition.Gauge, "Anonymous memory in bytes.", all, memory(func(m *stats.Memory) uint64 { return m.RSS }))
	metric(out, "container_memory_cache", exposition.Gauge, "Pages of files in bytes.", all, group(func(u *cgroup.Usage) float64 { return float64(u.Cache) }))
	metric(out, "container_memory_max_usage_bytes", exposition.Gauge, "Highest usage in bytes.", all, group(func(u *cgroup.Usage) float64 { return float64(u.MaxMemory) }))
	metric(out, "container_memory_failcnt", exposition.Counter, "Allocations that met the limit.", all, group(func(u *cgroup.Usage) float64 { return float64(u.MemoryFailures) }))
	metric(out, "container_oom_events_total", exposition.Counter, "Processes killed for lack of memory.", all, group(func(u *cgroup.Usage) float64 { return float64(u.OOMKills) }))
	metric(out, "container_memory_swap", exposition.Gauge, "Used swap in bytes.", all, func(c *container) (float64, time.Time, bool) {
		return float64(c.stats.Swap.Used), c.stats.Swap.At, !c.stats.Swap.At.IsZero()
	})
	minor := exposition.Labels{}.With("failure_type", "pgfault", "scope", "container")
	major := exposition.Labels{}.With("failure_type", "pgmajfault", "scope", "container")
	out.Metric("container_memory_failures_total", exposition.Counter, "Page faults.")
	for i := range all {
		m := &all[i].stats.Memory
		if m.At.IsZero() || m.PageFaults == 0 {
			continue
		}
		out.SampleWith(all[i].labels, minor, float64(m.PageFaults), m.At)
		out.SampleWith(all[i].labels, major, float64(m.MajorPageFaults), m.At)
	}
}

// labelValues has the rendered labels of a name by their values, such as devices, of which all
// containers have the same few.
type labelValues struct {
	name  string
	known map[string]exposition.Labels
}

func (v *labelValues) of(value string) exposition.Labels {
	l, known := v.known[value]
	if !known {
		l = exposition.Labels{}.With(v.name, value)
		v.known[value] = l
	}
	return l
}

func writeFileSystems(out *exposition.Writer, s *Snapshot, all []container) {
	devices := &labelValues{"device", map[string]exposition.Labels{}}
	layer := func(name, help string, value func(l *stats.FileSystem) (v uint64, known bool)) {
		out.Metric(name, exposition.Gauge, help)
		for i := range all {
			l := &all[i].stats.WritableLayer
			if v, known := value(l); known && !l.At.IsZero() {
				out.SampleWith(all[i].labels, devices.of(l.Mountpoint), float64(v), l.At)
			}
		}
	}
	layer("container_fs_usage_bytes", "Space of the container's layer in bytes.", func(l *stats.FileSystem) (uint64, bool) { return l.UsedBytes, true })
	layer("container_fs_limit_bytes", "Size of the layer's file system in bytes.", func(l *stats.FileSystem) (uint64, bool) {
		size := s.capacities[l.Mountpoint]
		return size, size > 0
	})
	device := func(name, help string, value func(io *cgroup.IO) uint64) {
		out.Metric(name, exposition.Counter, help)
		for i := range all {
			if all[i].cgroup == nil {
				continue
			}
			for j := range all[i].cgroup.Usage.IO {
				io := &all[i].cgroup.Usage.IO[j]
				out.SampleWith(all[i].labels, devices.of(cmp.Or(s.devices[io.Device], io.Device)), float64(value(io)), all[i].cgroup.At)
			}
		}
	}
	device("container_fs_reads_bytes_total", "Bytes read from a device.", func(io *cgroup.IO) uint64 { return io.ReadBytes })
	device("container_fs_writes_bytes_total", "Bytes written to a device.", func(io *cgroup.IO) uint64 { return io.WriteBytes })
	device("container_fs_reads_total", "Reads from a device.", func(io *cgroup.IO) uint64 { return io.Reads })
	device("container_fs_writes_total", "Writes to a device.", func(io *cgroup.IO) uint64 { return io.Writes })
}

// writeNetworks writes the interfaces of pods, and of the node.
func writeNetworks(out *exposition.Writer, s *Snapshot) {
	type link struct {
		labels, name exposition.Labels
		of           *host.Interface
		at           time.Time
	}
	all := make([]link, 0, len(s.Machine.Interfaces)+len(s.Containers))
	names := &labelValues{"interface", map[string]exposition.Labels{}}
	for i := range s.Machine.Interfaces {
		one := &s.Machine.Interfaces[i]
		all = append(all, link{labelsOf("", "/", "", "", "", ""), names.of(one.Name), one, s.At})
	}
	for i := range s.Containers {
		p := &s.Containers[i]
		network, known := s.Networks[p.UID]
		for j := range network.Interfaces {
			one := &network.Interfaces[j]
			all = append(all, link{labelsOf("", network.Cgroup, "", "", p.Namespace, p.Name), names.of(one.Name), one, network.At})
		}
		if n := p.Network; !known && !n.At.IsZero() {
			one := &host.Interface{Name: n.Interface, ReceivedBytes: n.Received, SentBytes: n.Sent, ReceiveErrors: n.ReceiveErrors, SendErrors: n.TransmissionErrors}
			all = append(all, link{labelsOf("", "", "", "", p.Namespace, p.Name), names.of(one.Name), one, n.At})
		}
	}
	for _, m := range []struct {
		name, help string
		value      func(i *host.Interface) uint64
	}{
		{"container_network_receive_bytes_total", "Received bytes.", func(i *host.Interface) uint64 { return i.ReceivedBytes }},
		{"container_network_receive_packets_total", "Received packets.", func(i *host.Interface) uint64 { return i.ReceivedPackets }},
		{"container_network_receive_packets_dropped_total", "Received packets that were dropped.", func(i *host.Interface) uint64 { return i.ReceiveDropped }},
		{"container_network_receive_errors_total", "Errors while receiving.", func(i *host.Interface) uint64 { return i.ReceiveErrors }},
		{"container_network_transmit_bytes_total", "Sent bytes.", func(i *host.Interface) uint64 { return i.SentBytes }},
		{"container_network_transmit_packets_total", "Sent packets.", func(i *host.Interface) uint64 { return i.SentPackets }},
		{"container_network_transmit_packets_dropped_total", "Packets that were dropped before they were sent.", func(i *host.Interface) uint64 { return i.SendDropped }},
		{"container_network_transmit_errors_total", "Errors while sending.", func(i *host.Interface) uint64 { return i.SendErrors }},
	} {
		out.Metric(m.name, exposition.Counter, m.help)
		for _, l := range all {
			out.SampleWith(l.labels, l.name, float64(m.value(l.of)), l.at)
		}
	}
}

// writeSpecs writes the limits of containers, and their starts and processes.
func writeSpecs(out *exposition.Writer, all []container) {
	metric(out, "container_start_time_seconds", exposition.Gauge, "Start since the Unix epoch in seconds.", all, func(c *container) (float64, time.Time, bool) {
		return float64(c.start.UnixNano()) / 1e9, c.stats.CPU.At, !c.start.IsZero()
	})
	metric(out, "container_last_seen", exposition.Gauge, "Time of the measurement since the Unix epoch in seconds.", all, func(c *container) (float64, time.Time, bool) {
		return float64(c.stats.CPU.At.Unix()), c.stats.CPU.At, !c.stats.CPU.At.IsZero()
	})
	metric(out, "container_processes", exposition.Gauge, "Number of processes.", all, func(c *container) (float64, time.Time, bool) {
		return float64(c.stats.Processes), c.stats.CPU.At, c.stats.Processes > 0
	})
	metric(out, "container_threads", exposition.Gauge, "Number of processes and threads.", all, group(func(u *cgroup.Usage) float64 { return float64(u.Tasks) }))
	const period = 100 * time.Millisecond // of the kernel's quota, by default
	quota := func(c *container) (cores float64, known bool) {
		if c.spec == nil {
			return 0, false
		}
		limit, known := c.spec.Resources.Limits[v1.ResourceCPU]
		return limit.AsApproximateFloat64(), known
	}
	metric(out, "container_spec_cpu_period", exposition.Gauge, "Period of the limit of processor time in microseconds.", all, func(c *container) (float64, time.Time, bool) {
		return float64(period.Microseconds()), time.Time{}, c.spec != nil
	})
	metric(out, "container_spec_cpu_quota", exposition.Gauge, "Limit of processor time in microseconds of a period.", all, func(c *container) (float64, time.Time, bool) {
		cores, known := quota(c)
		return cores * float64(period.Microseconds()), time.Time{}, known
	})
	metric(out, "container_spec_cpu_shares", exposition.Gauge, "Share of processor time, 1024 for a core.", all, func(c *container) (float64, time.Time, bool) {
		if c.spec == nil {
			return 0, time.Time{}, false
		}
		return float64(podresources.Shares(podresources.Of(&c.spec.Resources).CPURequest)), time.Time{}, true
	})
	metric(out, "container_spec_memory_limit_bytes", exposition.Gauge, "Limit of memory in bytes, 0 for none.", all, func(c *container) (float64, time.Time, bool) {
		if c.spec == nil {
			return 0, time.Time{}, false
		}
		limit := quantities.Value(*c.spec.Resources.Limits.Memory())
		return float64(limit - limit%int64(os.Getpagesize())), time.Time{}, true // the kernel limits whole pages
	})
}

func writePressure(out *exposition.Writer, all []container) {
	stall := func(name, help string, of func(u *cgroup.Usage) cgroup.Stall, value func(s cgroup.Stall) time.Duration) {
		metric(out, name, exposition.Counter, help, all, func(c *container) (float64, time.Time, bool) {
			if c.cgroup == nil {
				return 0, time.Time{}, false
			}
			s := of(&c.cgroup.Usage)
			return value(s).Seconds(), c.cgroup.At, s.Known
		})
	}
	for _, r := range []struct {
		name string
		of   func(u *cgroup.Usage) cgroup.Stall
	}{
		{"cpu", func(u *cgroup.Usage) cgroup.Stall { return u.CPUStall }},
		{"memory", func(u *cgroup.Usage) cgroup.Stall { return u.MemoryStall }},
		{"io", func(u *cgroup.Usage) cgroup.Stall { return u.IOStall }},
	} {
		stall("container_pressure_"+r.name+"_waiting_seconds_total", "Time in which some processes waited, in seconds.", r.of, func(s cgroup.Stall) time.Duration { return s.Some })
		stall("container_pressure_"+r.name+"_stalled_seconds_total", "Time in which all processes waited, in seconds.", r.of, func(s cgroup.Stall) time.Duration { return s.All })
	}
}
