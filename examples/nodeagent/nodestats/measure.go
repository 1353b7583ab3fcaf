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

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
	"github.com/keelson-dev/keelson/internal/diskuse"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// walkTime is the default of Request.WalkTime.
const walkTime = 2 * time.Second

// measurement holds all values of one time, in the form of their sources.
type measurement struct {
	at      time.Time
	node    string
	machine host.Usage
	memory  uint64          // of the machine
	self    stats.Container // of this process
	began   time.Time       // when this process began
	all     cgroupUsage     // of Options.PodsCgroup
	pods    []*v1.Pod
	usage   map[types.UID]*stats.Pod
	network map[types.UID]Network
	disks   *disks // nil for CPUAndMemory

	pressure pressures
}

// disks is the part of a measurement that concerns file systems.
type disks struct {
	rlimit  statsapi.RlimitStats
	node    fileSystem
	logs    fileSystem
	images  *stats.FileSystem // nil: not known
	systems map[string]fileSystem
	folders map[types.UID]podFolders
}

// fileSystem is the capacity of a file system. The zero value is an unknown one.
type fileSystem struct {
	at                                   time.Time
	bytes, available, inodes, inodesFree int64
}

// podFolders has the disk usage of a pod's folders.
type podFolders struct {
	logs    map[string]diskuse.Usage // by container
	volumes map[string]volume        // by folderKey
	names   map[string]string        // of the folders of volumes, by the names in the pod spec
}

// folderKey returns the key of a volume's folder. A PersistentVolume may have the name of another
// volume of the pod.
func folderKey(name string, whole bool) string {
	if whole {
		return "/" + name
	}
	return name
}

// isWhole reports whether the volumes of a plugin are file systems, in part or as a whole.
func isWhole(plugin string) bool { return plugin == pluginCSI || plugin == pluginLocal }

// volume is the usage of a volume: of a folder, or of a file system of its own.
type volume struct {
	used   diskuse.Usage
	system fileSystem // that holds the volume
	whole  bool       // the volume is the whole file system
}

// measure reads everything. It is called by one goroutine at a time.
func (c *Collector) measure(ctx context.Context, r Request) (*Snapshot, error) {
	d := r.Detail
	m := measurement{at: time.Now(), node: c.NodeName, usage: map[types.UID]*stats.Pod{}}
	s := &Snapshot{At: m.at, Pods: map[types.UID]*v1.Pod{}}
	if c.Runtime != nil {
		var err error
		if s.Containers, err = c.Runtime.ListStats(ctx); err != nil {
			return nil, fmt.Errorf("usage of containers: %w", err)
		}
	}
	for i := range s.Containers {
		m.usage[s.Containers[i].UID] = &s.Containers[i]
	}
	for _, pod := range c.Pods() {
		if m.usage[pod.UID] != nil || !podfacts.IsTerminal(pod.Status.Phase) {
			m.pods = append(m.pods, pod)
			s.Pods[pod.UID] = pod
		}
	}
	m.machine, m.self, m.began = c.Machine.Usage(), ownUsage(), c.began
	m.all = c.podsUsage()
	memory, _ := c.Machine.Memory()
	m.memory = uint64(max(memory, 0))
	if d != CPUAndMemory && c.Cgroups != nil {
		c.readCgroups(s, d)
		m.network = s.Networks
	}
	m.pressure = c.measurePressure(s, d)
	if d == Containers {
		s.readCapacities()
	}
	if d == Complete {
		var err error
		if m.disks, err = c.measureDisks(ctx, m.pods, cmp.Or(r.WalkTime, walkTime)); err != nil {
			return nil, err
		}
		c.disks.Forget()
	}
	s.Machine, s.MemoryCapacity = m.machine, m.memory
	s.Summary = summarize(&m, &c.rates)
	s.EndedLogs = endedLogs(&m)
	c.rates.forget()
	return s, ctx.Err()
}

// measureDisks measures the file systems, and the folders of the pods.
func (c *Collector) measureDisks(ctx context.Context, pods []*v1.Pod, patience time.Duration) (*disks, error) {
	d := &disks{node: systemOf(c.Root), logs: systemOf(c.LogDir), systems: map[string]fileSystem{}, folders: map[types.UID]podFolders{}}
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
		d.folders[pod.UID] = podFolders{logs: c.logs(walking, pod), volumes: c.volumes(walking, pod), names: c.folderNames(pod)}
	}
	return d, nil
}

// logs measures the log folders of a pod's containers.
func (c *Collector) logs(ctx context.Context, pod *v1.Pod) map[string]diskuse.Usage {
	dir := filepath.Join(c.LogDir, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
	out := map[string]diskuse.Usage{}
	for _, name := range foldersIn(dir) {
		if u, known := c.disks.Usage(ctx, filepath.Join(dir, name)); known {
			u.Inodes-- // the folder itself
			out[name] = u
		}
	}
	return out
}

// volumes measures the volumes of a pod that have a folder.
func (c *Collector) volumes(ctx context.Context, pod *v1.Pod) map[string]volume {
	dir := filepath.Join(c.Root, "pods", string(pod.UID), "volumes")
	out := map[string]volume{}
	for _, plugin := range foldersIn(dir) {
		for _, name := range foldersIn(filepath.Join(dir, plugin)) {
			path := filepath.Join(dir, plugin, name)
			if v, known := c.volume(ctx, path, plugin); known {
				out[folderKey(name, isWhole(plugin))] = v
			}
		}
	}
	return out
}

// Folders of plugins whose volumes are file systems, in part or as a whole. They are not walked.
const pluginCSI, pluginLocal = "kubernetes.io~csi", "kubernetes.io~local-volume"

func (c *Collector) volume(ctx context.Context, path, plugin string) (v volume, known bool) {
	if isWhole(plugin) {
		if plugin == pluginCSI {
			path = filepath.Join(path, "mount")
		}
		v.whole = true
		v.system, known = c.systems.system(ctx, path, systemOf)
		return v, known
	}
	v.system = systemOf(path)
	if isMountPoint(path) {
		v.whole = true
		return v, v.system.bytes > 0
	}
	v.used, known = c.disks.Usage(ctx, path)
	return v, known
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

// foldersIn returns the names of the folders in a folder, none if it is unreadable.
func foldersIn(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

func isFolder(path string) bool {
	var s syscall.Stat_t
	return syscall.Lstat(path, &s) == nil && s.Mode&syscall.S_IFMT == syscall.S_IFDIR
}

// isMountPoint reports whether a folder is on another device than its parent.
func isMountPoint(path string) bool {
	var own, above syscall.Stat_t
	return syscall.Lstat(path, &own) == nil && syscall.Lstat(filepath.Dir(path), &above) == nil && own.Dev != above.Dev
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
