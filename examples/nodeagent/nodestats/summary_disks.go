// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"cmp"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/internal/diskuse"
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
			if u, known := folders.logs[p.Containers[i].Name]; known {
				p.Containers[i].Logs = fsStats(d.logs, u.At, u.Bytes, u.Inodes)
			}
		}
	}
	for _, u := range folders.logs { // also of containers that do not run
		plus(u.Bytes, u.Inodes)
	}
	for i := range pod.Spec.Volumes {
		spec := &pod.Spec.Volumes[i]
		claim := claimOf(pod, spec)
		v, known := folders.volumes[folderKey(cmp.Or(folders.names[spec.Name], spec.Name), claim != nil || spec.CSI != nil)]
		if !known {
			continue
		}
		one := v.stats()
		p.VolumeStats = append(p.VolumeStats, statsapi.VolumeStats{Name: spec.Name, FsStats: one, PVCRef: claim})
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
		logs := maps.Clone(folders.logs)
		if st := m.usage[uid]; st != nil {
			for i := range st.Containers {
				delete(logs, st.Containers[i].Name)
			}
		}
		for _, u := range logs {
			all[uid] = DiskUsage{all[uid].Bytes + u.Bytes, all[uid].Inodes + u.Inodes}
		}
	}
	return all
}

// stats returns the usage of a volume.
func (v volume) stats() statsapi.FsStats {
	used, inodes := v.used.Bytes, v.used.Inodes
	at := v.used.At
	if v.whole {
		used, inodes = v.system.used()
		at = v.system.at
	}
	return *fsStats(v.system, at, used, inodes)
}

// fsStats returns the usage of a part of a file system. If the file system is unknown, its capacity
// is absent.
func fsStats(s fileSystem, at time.Time, used, inodesUsed uint64) *statsapi.FsStats {
	out := s.stats()
	if out == nil {
		out = &statsapi.FsStats{}
	}
	out.Time = metav1.NewTime(at)
	out.UsedBytes, out.InodesUsed = &used, &inodesUsed
	return out
}

// stats returns the capacity of a file system, nil if it is unknown.
func (s fileSystem) stats() *statsapi.FsStats {
	if s.bytes == 0 {
		return nil
	}
	bytes, available := uint64(s.bytes), uint64(s.available)
	out := &statsapi.FsStats{Time: metav1.NewTime(s.at), CapacityBytes: &bytes, AvailableBytes: &available}
	if s.inodes > 0 { // else the file system has no limit
		inodes, free := uint64(s.inodes), uint64(s.inodesFree)
		out.Inodes, out.InodesFree = &inodes, &free
	}
	return out
}

// used returns the used bytes of the whole file system. Space reserved for root counts as used.
func (s fileSystem) used() (bytes, inodes uint64) {
	return uint64(max(s.bytes-s.available, 0)), uint64(max(s.inodes-s.inodesFree, 0))
}
