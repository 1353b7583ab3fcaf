// SPDX-License-Identifier: Apache-2.0

package signals

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/eviction"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats"
)

// walkTime bounds the walks through the folders of pods in one call of Usage. The manager gives a call
// ten seconds.
const walkTime = 8 * time.Second

// Observer implements eviction.Observer.
type Observer struct {
	Collector *nodestats.Collector

	layout pressure.Layout // as of the last answer of the container runtime
}

var _ eviction.Observer = (*Observer)(nil)

// Levels implements eviction.Observer. It never fails: the signals of a runtime that does not answer
// are missing.
func (o *Observer) Levels(ctx context.Context) (eviction.Levels, error) {
	free, err := o.Collector.Free(ctx)
	if err == nil && free.Images.Bytes.Capacity > 0 {
		o.layout.ImagesApart = free.Images.Device != free.Node.Device
	}
	return eviction.Levels{Readings: readings(free), Layout: o.layout}, ctx.Err()
}

// readings returns the signals that are known.
func readings(f nodestats.Free) map[pressure.Signal]pressure.Reading {
	known := map[pressure.Signal]pressure.Reading{}
	for signal, amount := range map[pressure.Signal]nodestats.Amount{
		pressure.MemoryAvailable: f.Memory, pressure.AllocatableMemoryAvailable: f.Pods, pressure.PIDAvailable: f.ProcessIDs,
		pressure.NodeFSAvailable: f.Node.Bytes, pressure.NodeFSInodesFree: f.Node.Inodes,
		pressure.ImageFSAvailable: f.Images.Bytes, pressure.ImageFSInodesFree: f.Images.Inodes,
	} {
		if amount.Capacity > 0 {
			known[signal] = pressure.Reading{Available: amount.Available, Capacity: amount.Capacity, At: f.At}
		}
	}
	return known
}

// Usage implements eviction.Observer.
func (o *Observer) Usage(ctx context.Context, pods []*v1.Pod) ([]pressure.Usage, error) {
	snapshot, err := o.Collector.Collect(ctx, nodestats.Request{Fresh: true, WalkTime: walkTime})
	if err != nil {
		return nil, err
	}
	byUID := map[string]*statsapi.PodStats{}
	for i := range snapshot.Summary.Pods {
		byUID[snapshot.Summary.Pods[i].PodRef.UID] = &snapshot.Summary.Pods[i]
	}
	all := make([]pressure.Usage, 0, len(pods))
	for _, pod := range pods {
		u := pressure.Usage{Pod: pod}
		if p := byUID[string(pod.UID)]; p != nil {
			fill(&u, p, snapshot.EndedLogs[pod.UID])
			u.Processes = max(u.Processes, int64(snapshot.Tasks[pod.UID]))
		}
		all = append(all, u)
	}
	return all, nil
}

// fill adds the usage of a pod.
func fill(u *pressure.Usage, p *statsapi.PodStats, ended nodestats.DiskUsage) {
	u.Known = true
	if p.Memory != nil {
		u.Memory = value(p.Memory.WorkingSetBytes)
	}
	if p.ProcessStats != nil {
		u.Processes = value(p.ProcessStats.ProcessCount)
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		one := pressure.ContainerUsage{Name: c.Name, Root: disk(c.Rootfs), Logs: disk(c.Logs)}
		if c.Memory != nil {
			one.Memory = value(c.Memory.WorkingSetBytes)
		}
		u.Containers = append(u.Containers, one)
	}
	u.OtherLogs = pressure.Disk{Bytes: int64(ended.Bytes), Inodes: int64(ended.Inodes)}
	for i := range p.VolumeStats {
		v := &p.VolumeStats[i]
		u.Volumes = append(u.Volumes, pressure.VolumeUsage{Name: v.Name, Used: disk(&v.FsStats), IsLocal: isLocal(u.Pod, v.Name)})
	}
}

// isLocal reports whether a volume takes space of the node's disk.
func isLocal(pod *v1.Pod, name string) bool {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == name {
			return v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault || v.ConfigMap != nil || v.Secret != nil ||
				v.DownwardAPI != nil || v.Projected != nil
		}
	}
	return false
}

func disk(s *statsapi.FsStats) pressure.Disk {
	if s == nil {
		return pressure.Disk{}
	}
	return pressure.Disk{Bytes: value(s.UsedBytes), Inodes: value(s.InodesUsed)}
}

// value returns a number of the Summary, 0 if it is absent.
func value(n *uint64) int64 {
	if n == nil {
		return 0
	}
	return int64(min(*n, 1<<62))
}
