// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/internal/diskuse"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// addDisks adds root file systems, logs, volumes, and the sum of the ephemeral storage.
func addDisks(p *statsapi.PodStats, m *measurement, pod *v1.Pod) {
	d := m.disks
	folders := d.folders[pod.UID]
	sum := diskuse.Usage{At: m.at}
	plus := func(bytes, inodes uint64) { sum.Bytes, sum.Inodes = sum.Bytes+bytes, sum.Inodes+inodes }
	if st := m.usage[pod.UID]; st != nil {
		for i := range p.Containers {
			if layer := st.Containers[i].WritableLayer; !layer.At.IsZero() {
				p.Containers[i].Rootfs = fsStats(d.system(layer.Mountpoint), layer.At, layer.UsedBytes, layer.InodesUsed)
				plus(layer.UsedBytes, layer.InodesUsed)
			}
			if u := folders.log(p.Containers[i].Name); u != nil {
				p.Containers[i].Logs = fsStats(d.logs, u.At, u.Bytes, u.Inodes)
			}
		}
	}
	for i := range folders.logs { // also of containers that do not run
		plus(folders.logs[i].used.Bytes, folders.logs[i].used.Inodes)
	}
	if n := len(folders.volumes); n > 0 {
		p.VolumeStats = make([]statsapi.VolumeStats, 0, n)
	}
	for i := range pod.Spec.Volumes {
		spec := &pod.Spec.Volumes[i]
		claim := claimOf(pod, spec)
		v := folders.volume(cmp.Or(folders.names[spec.Name], spec.Name), claim != nil || spec.CSI != nil)
		if v == nil {
			continue
		}
		one := v.stats()
		p.VolumeStats = append(p.VolumeStats, statsapi.VolumeStats{Name: spec.Name, FsStats: *one, PVCRef: claim})
		if isLocalEphemeral(spec) {
			plus(*one.UsedBytes, *one.InodesUsed)
		}
	}
	p.EphemeralStorage = fsStats(d.node, sum.At, sum.Bytes, sum.Inodes)
}

// endedLogs returns the logs of containers that do not run, by the UID of the pod.
func endedLogs(m *measurement) map[types.UID]DiskUsage {
	if m.disks == nil {
		return nil
	}
	all := map[types.UID]DiskUsage{}
	for uid, folders := range m.disks.folders {
		st := m.usage[uid]
		for i := range folders.logs {
			log := &folders.logs[i]
			if runs := st != nil && slices.ContainsFunc(st.Containers, func(c stats.Container) bool { return c.Name == log.name }); !runs {
				all[uid] = DiskUsage{all[uid].Bytes + log.used.Bytes, all[uid].Inodes + log.used.Inodes}
			}
		}
	}
	return all
}

// stats returns the usage of a volume.
func (v *volume) stats() *statsapi.FsStats {
	if v.whole {
		return v.system.stats()
	}
	return fsStats(v.system, v.used.At, v.used.Bytes, v.used.Inodes)
}

// fileSystemFields holds a statsapi.FsStats with its values, in a single allocation.
type fileSystemFields struct {
	statsapi.FsStats
	capacity, available, inodes, inodesFree, used, inodesUsed uint64
}

// fsStats returns the usage of a part of a file system. If the file system is unknown, its capacity
// is absent.
func fsStats(s fileSystem, at time.Time, used, inodesUsed uint64) *statsapi.FsStats {
	f := &fileSystemFields{
		capacity: uint64(s.bytes), available: uint64(s.available), inodes: uint64(s.inodes), inodesFree: uint64(s.inodesFree),
		used: used, inodesUsed: inodesUsed,
	}
	f.Time, f.UsedBytes, f.InodesUsed = metav1.NewTime(at), &f.used, &f.inodesUsed
	if s.bytes != 0 {
		f.CapacityBytes, f.AvailableBytes = &f.capacity, &f.available
		if s.inodes > 0 { // else the file system has no limit
			f.Inodes, f.InodesFree = &f.inodes, &f.inodesFree
		}
	}
	return &f.FsStats
}

// stats returns the usage of the whole file system. Space reserved for root counts as used.
func (s fileSystem) stats() *statsapi.FsStats {
	return fsStats(s, s.at, uint64(max(s.bytes-s.available, 0)), uint64(max(s.inodes-s.inodesFree, 0)))
}
