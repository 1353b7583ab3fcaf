// SPDX-License-Identifier: Apache-2.0

package pressure

// Layout says which file systems are separate from that of volumes and logs.
type Layout struct {
	// ImagesApart: images have a file system of their own. Writable layers of containers are beside
	// the images unless ContainersApart is set.
	ImagesApart bool
	// ContainersApart: writable layers are not on the file system of the images, but on the file
	// system of volumes and logs.
	ContainersApart bool
}

// Reclaim is a step that frees space without ending a pod.
type Reclaim uint8

// The steps, in their order.
const (
	// ReclaimContainers removes ended containers and their logs.
	ReclaimContainers Reclaim = iota
	// ReclaimImages removes all unused images.
	ReclaimImages
)

// String returns the name of the step.
func (r Reclaim) String() string {
	if r == ReclaimImages {
		return "images"
	}
	return "containers"
}

// Reclaims returns the steps that may free the resource of a signal, in their order.
func (l Layout) Reclaims(s Signal) []Reclaim {
	switch s {
	case MemoryAvailable, AllocatableMemoryAvailable, PIDAvailable:
		return nil
	case NodeFSAvailable, NodeFSInodesFree:
		if l.ImagesApart {
			return []Reclaim{ReclaimContainers} // logs
		}
	case ImageFSAvailable, ImageFSInodesFree:
		if l.ContainersApart {
			return []Reclaim{ReclaimImages}
		}
	default:
		if l.ContainersApart {
			return []Reclaim{ReclaimContainers}
		}
	}
	return []Reclaim{ReclaimContainers, ReclaimImages}
}

// parts says which parts of a pod's disk usage are on a file system.
type parts struct{ roots, logs, volumes bool }

// parts returns the parts on the file system of a signal.
func (l Layout) parts(s Signal) parts {
	node := parts{roots: !l.ImagesApart || l.ContainersApart, logs: true, volumes: true}
	switch s {
	case NodeFSAvailable, NodeFSInodesFree:
		return node
	case ImageFSAvailable, ImageFSInodesFree:
		if l.ContainersApart {
			return parts{}
		}
	default:
		if l.ContainersApart {
			return node
		}
	}
	if l.ImagesApart {
		return parts{roots: true}
	}
	return node
}
