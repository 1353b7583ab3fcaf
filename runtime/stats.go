// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// StatsReader is an optional ability of a Runtime: to tell what running
// containers use.
type StatsReader interface {
	// ContainerStats tells about one container. ErrNotFound: there is none; any
	// other error, if it does not run, or nothing is known of it yet.
	ContainerStats(ctx context.Context, id ContainerID) (*ContainerStats, error)
	// ListStats tells about all pods that have a running container, and may tell
	// about more, in no particular order. What ends meanwhile may be left out.
	ListStats(ctx context.Context) ([]PodStats, error)
}

// ContainerStats is what one container uses.
type ContainerStats struct {
	ID     ContainerID
	Name   string // the container's name in the pod spec
	CPU    CPUStats
	Memory MemoryStats
	// WritableLayer is the container's own part of its root file system; its logs
	// and volumes are not in it.
	WritableLayer FSStats
}

// PodStats is what one pod uses.
type PodStats struct {
	UID             types.UID
	Namespace, Name string
	Sandbox         SandboxID // empty: not told
	// CPU, Memory and Network are those of the whole pod; where the runtime does
	// not tell, their At is zero. They may be more than the sum of the containers:
	// there is the sandbox's own process.
	CPU        CPUStats
	Memory     MemoryStats
	Network    NetworkStats
	Containers []ContainerStats // by name
}

// CPUStats is processor time.
type CPUStats struct {
	At time.Time // when it was measured; zero: not known
	// UsageNanoseconds is the time spent since the start, summed over all cores. A
	// rate is the difference of two, divided by that of At.
	UsageNanoseconds uint64
}

// MemoryStats is memory, in bytes.
type MemoryStats struct {
	At time.Time // when it was measured; zero: not known
	// Usage is what the kernel counts against the limit, reclaimable caches
	// included. 0: not told.
	Usage uint64
	// WorkingSet is Usage without the files' pages that nobody used lately: what
	// the kubelet evicts by.
	WorkingSet uint64
}

// FSStats is use of a file system.
type FSStats struct {
	At         time.Time // when it was measured; zero: not known
	Mountpoint string    // of the file system that it is on; empty: not told
	UsedBytes  uint64
	InodesUsed uint64
}

// NetworkStats is what went through a pod's first interface, in bytes since it
// was made.
type NetworkStats struct {
	At                 time.Time // when it was measured; zero: not known, as on the host network
	Interface          string
	Received, Sent     uint64
	ReceiveErrors      uint64 // packets
	TransmissionErrors uint64 // packets
}
