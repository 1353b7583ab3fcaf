// SPDX-License-Identifier: Apache-2.0

package pressure

import v1 "k8s.io/api/core/v1"

// Disk is used space.
type Disk struct{ Bytes, Inodes int64 }

// plus returns the sum.
func (d Disk) plus(more Disk) Disk { return Disk{d.Bytes + more.Bytes, d.Inodes + more.Inodes} }

// Usage is the measured usage of a pod.
type Usage struct {
	// Pod is the pod with the resources that the node has granted. It is not modified.
	Pod *v1.Pod
	// Known says that the pod was measured. The fields below are zero otherwise.
	Known      bool
	Memory     int64 // working set in bytes
	Processes  int64
	Containers []ContainerUsage
	// OtherLogs are the logs of containers that do not run.
	OtherLogs Disk
	Volumes   []VolumeUsage
}

// ContainerUsage is the usage of a running container.
type ContainerUsage struct {
	Name       string
	Memory     int64 // working set in bytes
	Root, Logs Disk
}

// VolumeUsage is the usage of a volume.
type VolumeUsage struct {
	Name string // in the pod spec
	Used Disk
	// IsLocal says that the volume takes space of the node's disk: emptyDir except in memory,
	// configMap, secret, downwardAPI and projected.
	IsLocal bool
}

// disk returns the sum over the parts.
func (u *Usage) disk(of parts) (sum Disk) {
	for i := range u.Containers {
		c := &u.Containers[i]
		if of.roots {
			sum = sum.plus(c.Root)
		}
		if of.logs {
			sum = sum.plus(c.Logs)
		}
	}
	if of.logs {
		sum = sum.plus(u.OtherLogs)
	}
	for _, v := range u.Volumes {
		if of.volumes && v.IsLocal {
			sum = sum.plus(v.Used)
		}
	}
	return sum
}

// everything are all parts of a pod's ephemeral storage.
var everything = parts{roots: true, logs: true, volumes: true}
