// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// summarize returns the Summary of a measurement.
func summarize(m *measurement, r *rates) *statsapi.Summary {
	s := &statsapi.Summary{Pods: make([]statsapi.PodStats, 0, len(m.pods))}
	for _, pod := range m.pods {
		s.Pods = append(s.Pods, podStats(m, r, pod))
	}
	var unknown []string
	for uid := range m.usage {
		if m.byUID[uid] == nil {
			unknown = append(unknown, string(uid))
		}
	}
	slices.Sort(unknown)
	for _, uid := range unknown { // pods that the node ends
		st := m.usage[types.UID(uid)]
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: st.Namespace, Name: st.Name, UID: st.UID}}
		s.Pods = append(s.Pods, podStats(m, r, pod))
	}
	s.Node = nodeStats(m, r)
	s.Node.SystemContainers = append(s.Node.SystemContainers, allPods(m, r, s.Pods))
	return s
}

func nodeStats(m *measurement, r *rates) statsapi.NodeStats {
	u := &m.machine
	at := metav1.NewTime(m.at)
	node := statsapi.NodeStats{NodeName: m.node, StartTime: metav1.NewTime(u.Boot)}
	if u.CPU > 0 {
		node.CPU = new(usageFields).cpuStats(r, counterKey{name: "node"}, &stats.CPU{At: m.at, UsageNanoseconds: uint64(u.CPU)})
	}
	if u.Memory.Used > 0 {
		node.Memory = &statsapi.MemoryStats{
			Time: at, AvailableBytes: &u.Memory.Available, UsageBytes: &u.Memory.Used, WorkingSetBytes: &u.Memory.WorkingSet,
			RSSBytes: &u.Memory.Anonymous, PageFaults: &u.Memory.PageFaults, MajorPageFaults: &u.Memory.MajorPageFaults,
		}
		node.Swap = &statsapi.SwapStats{Time: at, SwapUsageBytes: &u.SwapUsed, SwapAvailableBytes: &u.SwapFree}
	}
	node.IO = addPressure(node.CPU, node.Memory, m.at, m.pressure.machine)
	if !m.self.CPU.At.IsZero() {
		self := containerStats(r, counterKey{name: "kubelet"}, &m.self)
		self.StartTime = metav1.NewTime(m.began)
		node.SystemContainers = append(node.SystemContainers, self)
	}
	d := m.disks
	if d == nil {
		return node
	}
	node.Network = networkStats(u.Interfaces, m.at)
	if d.rlimit.MaxPID != nil {
		node.Rlimit = &d.rlimit
	}
	if d.node.bytes > 0 {
		node.Fs = d.node.stats()
	}
	if d.images != nil {
		images := fsStats(d.system(d.images.Mountpoint), d.images.At, d.images.UsedBytes, d.images.InodesUsed)
		node.Runtime = &statsapi.RuntimeStats{ImageFs: images, ContainerFs: images}
	}
	return node
}

// networkStats returns the usage of interfaces, nil without any. The interface with the default route
// stands for the whole.
func networkStats(all []host.Interface, at time.Time) *statsapi.NetworkStats {
	if len(all) == 0 {
		return nil
	}
	n := &statsapi.NetworkStats{Time: metav1.NewTime(at), Interfaces: make([]statsapi.InterfaceStats, 0, len(all))}
	for k := range all {
		i := &all[k]
		one := statsapi.InterfaceStats{Name: i.Name, RxBytes: &i.ReceivedBytes, RxErrors: &i.ReceiveErrors, TxBytes: &i.SentBytes, TxErrors: &i.SendErrors}
		n.Interfaces = append(n.Interfaces, one)
		if i.IsDefault {
			n.InterfaceStats = one
		}
	}
	return n
}

// podStats returns the usage of one pod.
func podStats(m *measurement, r *rates, pod *v1.Pod) statsapi.PodStats {
	p := statsapi.PodStats{
		PodRef: statsapi.PodReference{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)},
	}
	if pod.Status.StartTime != nil {
		p.StartTime = *pod.Status.StartTime
	}
	st := m.usage[pod.UID]
	if st == nil {
		p.Containers = []statsapi.ContainerStats{}
	} else {
		addUsage(&p, r, pod, st)
		for i := range p.Containers { // in the order of the runtime
			c := &p.Containers[i]
			c.IO = addPressure(c.CPU, c.Memory, m.at, m.pressure.containers[st.Containers[i].ID.ID])
		}
		p.IO = addPressure(p.CPU, p.Memory, m.at, m.pressure.pods[pod.UID])
		if m.disks != nil {
			addRuntimeUsage(&p, st, m.network[pod.UID])
		}
	}
	if m.disks != nil {
		addDisks(&p, m, pod)
	}
	return p
}

// addUsage adds processor time, memory and swap.
func addUsage(p *statsapi.PodStats, r *rates, pod *v1.Pod, st *stats.Pod) {
	p.Containers = make([]statsapi.ContainerStats, 0, len(st.Containers))
	for i := range st.Containers {
		c := &st.Containers[i]
		one := containerStats(r, counterKey{name: c.ID.ID}, c)
		status := containerStatus(pod, c.ID)
		if status != nil && status.State.Running != nil {
			one.StartTime = status.State.Running.StartedAt
		}
		setAvailable(one.Memory, memoryLimit(pod, c.Name, status))
		p.Containers = append(p.Containers, one)
	}
	whole := &usageFields{}
	if p.CPU = whole.cpuStats(r, counterKey{pod: st.UID}, &st.CPU); p.CPU == nil {
		p.CPU = sumCPU(p.Containers)
	}
	if p.Memory = whole.memoryStats(&st.Memory); p.Memory == nil {
		p.Memory = sumMemory(p.Containers)
	} else {
		setAvailable(p.Memory, podMemoryLimit(pod))
	}
	p.Swap = sumSwap(p.Containers)
}

// podMemoryLimit returns the limit of a pod's cgroup, 0 without a limit.
func podMemoryLimit(pod *v1.Pod) uint64 {
	return uint64(max(podresources.OfPod(pod).WithOverhead(pod.Spec.Overhead).MemoryLimit, 0))
}

// addRuntimeUsage adds the network and the number of processes. The network of the kernel tells more
// than that of the runtime.
func addRuntimeUsage(p *statsapi.PodStats, st *stats.Pod, known Network) {
	p.Network = networkStats(known.Interfaces, known.At)
	if n := &st.Network; p.Network == nil && !n.At.IsZero() {
		one := statsapi.InterfaceStats{Name: n.Interface, RxBytes: &n.Received, RxErrors: &n.ReceiveErrors, TxBytes: &n.Sent, TxErrors: &n.TransmissionErrors}
		p.Network = &statsapi.NetworkStats{Time: metav1.NewTime(n.At), InterfaceStats: one, Interfaces: []statsapi.InterfaceStats{one}}
	}
	if st.Processes > 0 {
		p.ProcessStats = &statsapi.ProcessStats{ProcessCount: &st.Processes}
	}
}

// sumCPU returns the sum over containers. A sum without a single value is absent.
func sumCPU(all []statsapi.ContainerStats) (sum *statsapi.CPUStats) {
	for i := range all {
		if c := all[i].CPU; c != nil {
			if sum == nil {
				sum = &statsapi.CPUStats{}
			}
			sum.Time = later(sum.Time, c.Time)
			add(&sum.UsageCoreNanoSeconds, c.UsageCoreNanoSeconds)
			add(&sum.UsageNanoCores, c.UsageNanoCores)
		}
	}
	return sum
}

// sumMemory is like sumCPU.
func sumMemory(all []statsapi.ContainerStats) (sum *statsapi.MemoryStats) {
	for i := range all {
		if m := all[i].Memory; m != nil {
			if sum == nil {
				sum = &statsapi.MemoryStats{}
			}
			sum.Time = later(sum.Time, m.Time)
			add(&sum.UsageBytes, m.UsageBytes)
			add(&sum.WorkingSetBytes, m.WorkingSetBytes)
			add(&sum.RSSBytes, m.RSSBytes)
			add(&sum.PageFaults, m.PageFaults)
			add(&sum.MajorPageFaults, m.MajorPageFaults)
		}
	}
	return sum
}

// sumSwap is like sumCPU.
func sumSwap(all []statsapi.ContainerStats) (sum *statsapi.SwapStats) {
	for i := range all {
		if s := all[i].Swap; s != nil {
			if sum == nil {
				sum = &statsapi.SwapStats{}
			}
			sum.Time = later(sum.Time, s.Time)
			add(&sum.SwapUsageBytes, s.SwapUsageBytes)
			add(&sum.SwapAvailableBytes, s.SwapAvailableBytes)
		}
	}
	return sum
}

// allPods returns the usage of all pods as a system container: that of their cgroup, or else the sum.
func allPods(m *measurement, r *rates, pods []statsapi.PodStats) statsapi.ContainerStats {
	if all := &m.all; !all.CPU.At.IsZero() && !all.Memory.At.IsZero() {
		whole := containerStats(r, counterKey{name: "pods"}, &all.Container)
		whole.Swap.SwapAvailableBytes = nil // there is no limit
		whole.StartTime = metav1.NewTime(all.made)
		setAvailable(whole.Memory, all.limit)
		whole.IO = addPressure(whole.CPU, whole.Memory, m.at, m.pressure.all)
		return whole
	}
	asContainers := make([]statsapi.ContainerStats, 0, len(pods))
	for i := range pods {
		asContainers = append(asContainers, statsapi.ContainerStats{CPU: pods[i].CPU, Memory: pods[i].Memory, Swap: pods[i].Swap})
	}
	sum := statsapi.ContainerStats{Name: statsapi.SystemContainerPods}
	sum.CPU, sum.Memory, sum.Swap = sumCPU(asContainers), sumMemory(asContainers), sumSwap(asContainers)
	return sum
}

func containerStats(r *rates, key counterKey, c *stats.Container) statsapi.ContainerStats {
	u := &usageFields{}
	return statsapi.ContainerStats{Name: c.Name, CPU: u.cpuStats(r, key, &c.CPU), Memory: u.memoryStats(&c.Memory), Swap: u.swapStats(&c.Swap)}
}

// usageFields holds the processor time, memory and swap of a pod or container, which the Summary
// API has behind pointers, in a single allocation. Values that are not computed stay in the
// measurement, which the Summary points to.
type usageFields struct {
	cpu                statsapi.CPUStats
	nanoseconds, cores uint64
	memory             statsapi.MemoryStats
	swap               statsapi.SwapStats
}

// cpuStats observes the counter called key. A value without a time is absent.
func (u *usageFields) cpuStats(r *rates, key counterKey, c *stats.CPU) *statsapi.CPUStats {
	if c.At.IsZero() {
		return nil
	}
	known := false
	u.nanoseconds, u.cores, known = r.observe(key, sample{c.At, c.UsageNanoseconds})
	u.cpu = statsapi.CPUStats{Time: metav1.NewTime(c.At), UsageCoreNanoSeconds: &u.nanoseconds}
	if known {
		u.cpu.UsageNanoCores = &u.cores
	}
	return &u.cpu
}

func (u *usageFields) memoryStats(m *stats.Memory) *statsapi.MemoryStats {
	if m.At.IsZero() {
		return nil
	}
	u.memory = statsapi.MemoryStats{
		Time: metav1.NewTime(m.At), UsageBytes: reported(&m.Usage), WorkingSetBytes: &m.WorkingSet,
		RSSBytes: reported(&m.RSS), PageFaults: reported(&m.PageFaults),
	}
	if u.memory.PageFaults != nil { // of which none may be major
		u.memory.MajorPageFaults = &m.MajorPageFaults
	}
	return &u.memory
}

func (u *usageFields) swapStats(s *stats.Swap) *statsapi.SwapStats {
	if s.At.IsZero() {
		return nil
	}
	u.swap = statsapi.SwapStats{Time: metav1.NewTime(s.At), SwapUsageBytes: &s.Used, SwapAvailableBytes: &s.Available}
	return &u.swap
}

// setAvailable sets the memory up to the limit. Without a limit it is absent.
func setAvailable(m *statsapi.MemoryStats, limit uint64) {
	if m == nil || limit == 0 {
		return
	}
	available := limit - min(limit, *m.WorkingSetBytes)
	m.AvailableBytes = &available
}

// memoryLimit returns the limit that holds for a container, 0 without a limit. status may be nil.
func memoryLimit(pod *v1.Pod, name string, status *v1.ContainerStatus) uint64 {
	if status != nil && status.Resources != nil {
		return uint64(max(status.Resources.Limits.Memory().Value(), 0))
	}
	if c := containerSpec(pod, name); c != nil {
		return uint64(max(c.Resources.Limits.Memory().Value(), 0))
	}
	return 0
}

// containerSpec returns the container of that name in the pod spec, or nil.
func containerSpec(pod *v1.Pod, name string) *v1.Container {
	for c := range podfacts.Containers(&pod.Spec) {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// containerStatus returns the status of the container with that ID, or nil.
func containerStatus(pod *v1.Pod, id runtime.ContainerID) *v1.ContainerStatus {
	for s := range podfacts.AllStatuses(&pod.Status) {
		if name, own, _ := strings.Cut(s.ContainerID, "://"); own == id.ID && name == id.Runtime {
			return s
		}
	}
	return nil
}

// reported returns nil for 0, which stands for a value that was not reported.
func reported(n *uint64) *uint64 {
	if *n == 0 {
		return nil
	}
	return n
}

// add adds n to a sum, which may be nil. A nil n adds nothing.
func add(sum **uint64, n *uint64) {
	switch {
	case n == nil:
	case *sum == nil:
		total := *n
		*sum = &total
	default:
		**sum += *n
	}
}

func later(a, b metav1.Time) metav1.Time {
	if a.Before(&b) {
		return b
	}
	return a
}

// isLocalEphemeral reports whether a volume takes space of the node that the pod must account for
// (kubelet 1.36).
func isLocalEphemeral(v *v1.Volume) bool {
	return v.ConfigMap != nil || v.GitRepo != nil || v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault
}
