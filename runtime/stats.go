// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// StatsReader is an optional ability of a Runtime: to report the resource use of running
// containers.
type StatsReader interface {
	// ContainerStats reports a single container. The error is ErrNotFound if the container does not
	// exist, and another error if the container does not run or was not measured yet.
	ContainerStats(ctx context.Context, id ContainerID) (*ContainerStats, error)
	// ListStats reports all pods with a running container, in no particular order. Further pods may
	// be included. A container that ends meanwhile may be missing.
	ListStats(ctx context.Context) ([]PodStats, error)
}

// ContainerStats is the resource use of a container.
type ContainerStats struct {
	ID     ContainerID
	Name   string // the container's name in the pod spec
	CPU    CPUStats
	Memory MemoryStats
	// WritableLayer is the container's own part of its root file system, without logs and volumes.
	WritableLayer FSStats
}

// PodStats is the resource use of a pod.
type PodStats struct {
	UID             types.UID
	Namespace, Name string
	Sandbox         SandboxID // empty: not reported
	// CPU, Memory and Network are those of the whole pod. If the runtime does not report a value,
	// its At is zero. Because of the sandbox's own process, a value may exceed the sum of the
	// containers.
	CPU        CPUStats
	Memory     MemoryStats
	Network    NetworkStats
	Containers []ContainerStats // by name
}

// CPUStats is processor time.
type CPUStats struct {
	At time.Time // time of the measurement; zero: unknown
	// UsageNanoseconds is the processor time since the start, summed over all cores. A rate is the
	// difference of two values, divided by the difference of their times At.
	UsageNanoseconds uint64
}

// MemoryStats is memory in bytes.
type MemoryStats struct {
	At time.Time // time of the measurement; zero: unknown
	// Usage is the memory that the kernel counts against the limit, including reclaimable caches.
	// 0: not reported.
	Usage uint64
	// WorkingSet is Usage without file pages that were not used lately. The kubelet evicts pods by
	// this value.
	WorkingSet uint64
}

// FSStats is use of a file system.
type FSStats struct {
	At         time.Time // time of the measurement; zero: unknown
	Mountpoint string    // of the file system; empty: not reported
	UsedBytes  uint64
	InodesUsed uint64
}

// NetworkStats is the traffic of the pod's first interface since its creation, in bytes.
type NetworkStats struct {
	At                 time.Time // time of the measurement; zero: unknown, as on the host network
	Interface          string
	Received, Sent     uint64
	ReceiveErrors      uint64 // packets
	TransmissionErrors uint64 // packets
}
