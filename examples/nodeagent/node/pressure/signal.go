// SPDX-License-Identifier: Apache-2.0

package pressure

import v1 "k8s.io/api/core/v1"

// Signal is an amount of a resource that is free on the node. The names are the kubelet's.
type Signal string

// The signals. nodefs is the file system with volumes and logs, imagefs has the images, and
// containerfs has the writable layers of containers, if a runtime separates these from the images.
const (
	MemoryAvailable       Signal = "memory.available"
	NodeFSAvailable       Signal = "nodefs.available"
	NodeFSInodesFree      Signal = "nodefs.inodesFree"
	ImageFSAvailable      Signal = "imagefs.available"
	ImageFSInodesFree     Signal = "imagefs.inodesFree"
	ContainerFSAvailable  Signal = "containerfs.available"
	ContainerFSInodesFree Signal = "containerfs.inodesFree"
	PIDAvailable          Signal = "pid.available"
	// AllocatableMemoryAvailable is the memory that all pods together may still use of their limit.
	AllocatableMemoryAvailable Signal = "allocatableMemory.available"
)

// Signals returns all signals in the order of their names.
func Signals() []Signal {
	return []Signal{
		AllocatableMemoryAvailable, ContainerFSAvailable, ContainerFSInodesFree, ImageFSAvailable, ImageFSInodesFree,
		MemoryAvailable, NodeFSAvailable, NodeFSInodesFree, PIDAvailable,
	}
}

// Names of resources in messages and events, as in the kubelet.
const (
	resourceInodes v1.ResourceName = "inodes"
	resourcePIDs   v1.ResourceName = "pids"
)

// Resource returns the name of the signal's resource in messages and events.
func (s Signal) Resource() v1.ResourceName {
	switch s {
	case MemoryAvailable, AllocatableMemoryAvailable:
		return v1.ResourceMemory
	case NodeFSInodesFree, ImageFSInodesFree, ContainerFSInodesFree:
		return resourceInodes
	case PIDAvailable:
		return resourcePIDs
	}
	return v1.ResourceEphemeralStorage
}

// Condition returns the condition of the node while the signal is below a threshold.
func (s Signal) Condition() v1.NodeConditionType {
	switch s {
	case MemoryAvailable, AllocatableMemoryAvailable:
		return v1.NodeMemoryPressure
	case PIDAvailable:
		return v1.NodePIDPressure
	}
	return v1.NodeDiskPressure
}

// Conditions returns the conditions that signals set, in the order of their names.
func Conditions() []v1.NodeConditionType {
	return []v1.NodeConditionType{v1.NodeDiskPressure, v1.NodeMemoryPressure, v1.NodePIDPressure}
}
