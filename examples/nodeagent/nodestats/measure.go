// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats/cgroup"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
	"github.com/keelson-dev/keelson/internal/diskuse"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// walkTime is the default of Request.WalkTime.
const walkTime = 2 * time.Second

// measurement holds all values of one request, in the form of their sources. A later request adds parts
// to a copy of the measurement. A part is written once.
type measurement struct {
	at      time.Time
	node    string
	machine host.Usage
	memory  uint64          // of the machine
	self    stats.Container // of this process
	began   time.Time       // when this process began
	all     cgroupUsage     // of Options.PodsCgroup
	pods    []*v1.Pod
	byUID   map[types.UID]*v1.Pod // the same pods
	listed  []stats.Pod
	usage   map[types.UID]*stats.Pod // the same usage

	pressure pressures
	network  map[types.UID]Network // nil: not measured
	tasks    map[types.UID]uint64  // nil: not measured
	groups   *groups               // nil: not measured
	disks    *disks                // nil: not measured

	summary *statsapi.Summary // of some of the parts
}

// disks is the part of a measurement that concerns file systems.
type disks struct {
	rlimit  statsapi.RlimitStats
	node    fileSystem
	logs    fileSystem
	images  *stats.FileSystem // nil: not known
	systems map[string]fileSystem
	devices map[uint64]fileSystem // by device number, of volumes
	folders map[types.UID]podFolders
}

// fileSystem is the capacity of a file system. The zero value is an unknown one.
type fileSystem struct {
	at                                   time.Time
	bytes, available, inodes, inodesFree int64
}

// podFolders has the disk usage of a pod's folders.
type podFolders struct {
	logs    []logFolder
	volumes []volume
	names   map[string]string // of the folders of volumes, by the names in the pod spec
}

// logFolder is the usage of the folder of a container's logs.
type logFolder struct {
	name string
	used diskuse.Usage
}

// log returns the usage of the logs of a container, nil if it is not known.
func (f *podFolders) log(container string) *diskuse.Usage {
	for i := range f.logs {
		if f.logs[i].name == container {
			return &f.logs[i].used
		}
	}
	return nil
}

// volume returns the volume in a folder of that name, nil if it is not known. A PersistentVolume
// may have the name of another volume of the pod.
func (f *podFolders) volume(name string, isPersistent bool) *volume {
	for i := range f.volumes {
		if v := &f.volumes[i]; v.name == name && v.isPersistent == isPersistent {
			return v
		}
	}
	return nil
}

// isWhole reports whether the volumes of a plugin are file systems, in part or as a whole.
func isWhole(plugin string) bool { return plugin == pluginCSI || plugin == pluginLocal }

// volume is the usage of a volume: of a folder, or of a file system of its own.
type volume struct {
	name         string // of the folder
	isPersistent bool   // the folder may be that of a PersistentVolume
	used         diskuse.Usage
	system       fileSystem // that holds the volume
	whole        bool       // the volume is the whole file system
}

// measure reads what the last measurement lacks, and everything if it began before the time oldest. It
// is called by one goroutine at a time.
func (c *Collector) measure(ctx context.Context, r Request, oldest time.Time) (*Snapshot, error) {
	if c.last == nil || c.last.at.Before(oldest) {
		m, err := c.measureUsage(ctx)
		if err != nil {
			return nil, err
		}
		c.last = m
	}
	m := *c.last
	if r.Detail != CPUAndMemory && c.Cgroups != nil && m.network == nil {
		c.readNetworks(&m)
	}
	if r.Detail == Containers && m.groups == nil {
		m.groups = c.readGroups(&m)
	}
	if r.Detail == Complete && m.disks == nil {
		var err error
		if m.disks, err = c.measureDisks(ctx, m.pods, cmp.Or(r.WalkTime, walkTime)); err != nil {
			return nil, err
		}
		c.disks.Forget()
		c.listings.known.Forget()
		c.readPressures(&m)
	}
	if m.summary == nil || r.Detail == Complete {
		m.summary = summarize(&m, &c.rates)
		c.rates.known.Forget()
	}
	c.last = &m
	return m.snapshot(), ctx.Err()
}

// measureUsage measures what every request needs.
func (c *Collector) measureUsage(ctx context.Context) (*measurement, error) {
	m := &measurement{at: time.Now(), node: c.NodeName}
	if c.Runtime != nil {
		var err error
		if m.listed, err = c.Runtime.ListStats(ctx); err != nil {
			return nil, fmt.Errorf("usage of containers: %w", err)
		}
	}
	m.usage = make(map[types.UID]*stats.Pod, len(m.listed))
	for i := range m.listed {
		m.usage[m.listed[i].UID] = &m.listed[i]
	}
	all := c.Pods()
	m.byUID = make(map[types.UID]*v1.Pod, len(all))
	for _, pod := range all {
		if m.usage[pod.UID] != nil || !podfacts.IsTerminal(pod.Status.Phase) {
			m.pods = append(m.pods, pod)
			m.byUID[pod.UID] = pod
		}
	}
	var memory int64
	m.machine, memory = c.machineUsage()
	if memory > 0 && m.machine.SwapUsed+m.machine.SwapFree == 0 {
		addNoSwap(m.listed)
	}
	m.self, m.began, m.all = ownUsage(), c.began, c.podsUsage()
	m.memory = uint64(max(memory, 0))
	m.pressure.machine = cgroup.MachinePressure(c.Machine.Root)
	if c.Cgroups != nil {
		m.pressure.all = c.Cgroups.Pressure(c.PodsCgroup)
	}
	return m, nil
}

// addNoSwap sets the swap of containers on a machine without swap, which a runtime on cgroup version 1
// does not tell.
func addNoSwap(all []stats.Pod) {
	for i := range all {
		for j := range all[i].Containers {
			if c := &all[i].Containers[j]; c.Swap.At.IsZero() {
				c.Swap.At = c.Memory.At
			}
		}
	}
}

// snapshot returns the measurement for its readers.
func (m *measurement) snapshot() *Snapshot {
	s := &Snapshot{
		At: m.at, Summary: m.summary, Pods: m.byUID, Machine: m.machine, MemoryCapacity: m.memory,
		Containers: m.listed, Networks: m.network, Tasks: m.tasks, EndedLogs: endedLogs(m),
	}
	if m.groups != nil {
		s.Cgroups, s.capacities, s.devices = m.groups.usage, m.groups.capacities, m.groups.devices
	}
	return s
}

// measureDisks measures the file systems, and the folders of the pods.
func (c *Collector) measureDisks(ctx context.Context, pods []*v1.Pod, patience time.Duration) (*disks, error) {
	d := &disks{
		node: systemOf(c.Root), logs: systemOf(c.LogDir), systems: map[string]fileSystem{}, devices: map[uint64]fileSystem{},
		folders: make(map[types.UID]podFolders, len(pods)),
	}
	d.rlimit.Time.Time = time.Now()
	if most, used := c.Machine.ProcessIDs(); most > 0 {
		d.rlimit.MaxPID, d.rlimit.NumOfRunningProcesses = &most, &used
	}
	if c.ImageFS != nil {
		images, err := c.ImageFS(ctx)
		if err != nil {
			return nil, fmt.Errorf("usage of images: %w", err)
		}
		d.images = &images
		d.systems[images.Mountpoint] = systemOf(images.Mountpoint)
	}
	walking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, pod := range pods {
		d.folders[pod.UID] = podFolders{logs: c.logs(walking, pod), volumes: c.volumes(walking, d, pod), names: c.folderNames(pod)}
	}
	return d, nil
}

// logs measures the log folders of a pod's containers.
func (c *Collector) logs(ctx context.Context, pod *v1.Pod) []logFolder {
	dir := filepath.Join(c.LogDir, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
	names := c.listings.in(dir)
	out := make([]logFolder, 0, len(names))
	for _, name := range names {
		if u, known := c.disks.Usage(ctx, filepath.Join(dir, name)); known {
			u.Inodes-- // the folder itself
			out = append(out, logFolder{name, u})
		}
	}
	return out
}

// volumes measures the volumes of a pod that have a folder.
func (c *Collector) volumes(ctx context.Context, d *disks, pod *v1.Pod) []volume {
	dir := filepath.Join(c.Root, "pods", string(pod.UID), "volumes")
	out := make([]volume, 0, len(pod.Spec.Volumes))
	for _, plugin := range c.listings.in(dir) {
		folder := filepath.Join(dir, plugin)
		for _, name := range c.listings.in(folder) {
			if v, known := c.volume(ctx, d, filepath.Join(folder, name), plugin); known {
				v.name, v.isPersistent = name, isWhole(plugin)
				out = append(out, v)
			}
		}
	}
	return out
}

// Folders of plugins whose volumes are file systems, in part or as a whole. They are not walked.
const pluginCSI, pluginLocal = "kubernetes.io~csi", "kubernetes.io~local-volume"

// volume measures a volume. The file systems in d are not asked again.
func (c *Collector) volume(ctx context.Context, d *disks, path, plugin string) (v volume, known bool) {
	if isWhole(plugin) {
		if plugin == pluginCSI {
			path = filepath.Join(path, "mount")
		}
		v.whole = true
		v.system, known = c.systems.system(ctx, path, systemOf)
		return v, known
	}
	own, above := deviceOf(path), deviceOf(filepath.Dir(path))
	v.system = d.device(own, path)
	if own != above && own != 0 && above != 0 {
		v.whole = true
		return v, v.system.bytes > 0
	}
	v.used, known = c.disks.Usage(ctx, path)
	return v, known
}

// device returns the file system of a device, by a folder in it. d may be nil.
func (d *disks) device(number uint64, folder string) fileSystem {
	if d == nil || number == 0 {
		return systemOf(folder)
	}
	s, known := d.devices[number]
	if !known {
		s = systemOf(folder)
		d.devices[number] = s
	}
	return s
}

// system returns a file system of the measurement, by a folder in it.
func (d *disks) system(folder string) fileSystem {
	s, known := d.systems[folder]
	if !known && folder != "" {
		s = systemOf(folder)
		d.systems[folder] = s
	}
	return s
}

func systemOf(folder string) fileSystem {
	s := fileSystem{at: time.Now()}
	s.bytes, s.available, s.inodes, s.inodesFree = host.Disk(folder)
	return s
}

func isFolder(path string) bool {
	var s syscall.Stat_t
	return syscall.Lstat(path, &s) == nil && s.Mode&syscall.S_IFMT == syscall.S_IFDIR
}

// deviceOf returns the number of the device of a folder, 0 if it is unreadable.
func deviceOf(path string) uint64 {
	var s syscall.Stat_t
	if syscall.Lstat(path, &s) != nil {
		return 0
	}
	return uint64(s.Dev)
}

// ownUsage measures this process.
func ownUsage() stats.Container {
	c := stats.Container{Name: statsapi.SystemContainerKubelet}
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) == nil {
		c.CPU = stats.CPU{At: time.Now(), UsageNanoseconds: uint64(used.Utime.Nano() + used.Stime.Nano())}
		c.Memory.PageFaults, c.Memory.MajorPageFaults = uint64(used.Minflt+used.Majflt), uint64(used.Majflt)
	}
	statm, err := os.ReadFile("/proc/self/statm")
	if fields := strings.Fields(string(statm)); err == nil && len(fields) > 1 {
		pages, _ := strconv.ParseUint(fields[1], 10, 64)
		bytes := pages * uint64(os.Getpagesize())
		c.Memory.At, c.Memory.Usage, c.Memory.WorkingSet, c.Memory.RSS = time.Now(), bytes, bytes, bytes
	}
	return c
}
