// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

// Reader is an optional ability of a runtime.Runtime: it measures the resource usage of running
// containers. The methods are safe for concurrent use.
type Reader interface {
	// ContainerStats returns the usage of one container. The error wraps runtime.ErrNotFound if the
	// container does not exist. Any other error means that the container does not run or was not
	// measured yet.
	ContainerStats(ctx context.Context, id runtime.ContainerID) (*Container, error)
	// ListStats returns the usage of every pod with a running container, in no particular order.
	// Pods and containers that end during the call may be missing. Pods without a running container
	// may be included.
	ListStats(ctx context.Context) ([]Pod, error)
}

// DiskMeter is an optional ability of a Reader: it measures a folder with content that belongs to users of containers,
// and that the caller may not read.
type DiskMeter interface {
	DiskUsage(ctx context.Context, folder string) (FileSystem, error)
}

// Container is the usage of one container.
type Container struct {
	ID     runtime.ContainerID
	Name   string // the container's name in the pod spec
	CPU    CPU
	Memory Memory
	Swap   Swap
	// Processes is the number of processes. 0: not reported.
	Processes uint64
	// WritableLayer is the usage of the container's own layer of its root file system, without logs
	// and volumes.
	WritableLayer FileSystem
}

// Pod is the usage of one pod.
type Pod struct {
	UID             types.UID
	Namespace, Name string
	Sandbox         runtime.SandboxID // "" if the runtime does not report the sandbox
	// CPU, Memory and Network are the usage of the whole pod. At is zero if the runtime does not
	// report the usage. The usage may exceed the sum over the containers, because the sandbox has a
	// process of its own.
	CPU        CPU
	Memory     Memory
	Network    Network
	Processes  uint64      // the number of processes; 0: not reported
	Containers []Container // sorted by name
}

// CPU is used processor time.
type CPU struct {
	At time.Time // the time of the measurement; zero: not measured
	// UsageNanoseconds is the processor time since the start, summed over all cores. The usage in
	// cores is the difference of two UsageNanoseconds divided by the difference of their At.
	UsageNanoseconds uint64
}

// Memory is used memory, in bytes.
type Memory struct {
	At time.Time // the time of the measurement; zero: not measured
	// Usage is the memory that the kernel counts against the limit, including reclaimable caches.
	// 0: not reported.
	Usage uint64
	// WorkingSet is Usage without the inactive pages of files. The kubelet evicts by the working
	// set.
	WorkingSet uint64
	// RSS is the anonymous memory. PageFaults and MajorPageFaults are counters since the start. 0:
	// not reported.
	RSS                         uint64
	PageFaults, MajorPageFaults uint64
}

// Swap is used swap space, in bytes.
type Swap struct {
	At        time.Time // the time of the measurement; zero: not measured
	Used      uint64
	Available uint64 // up to the limit
}

// FileSystem is the usage of a file system.
type FileSystem struct {
	At         time.Time // the time of the measurement; zero: not measured
	Mountpoint string    // a folder of the file system that holds the data; "": not reported
	UsedBytes  uint64
	InodesUsed uint64
}

// Network is the traffic of a pod's first interface since the interface was made, in bytes.
type Network struct {
	At                 time.Time // the time of the measurement; zero: not measured, for example on the host network
	Interface          string
	Received, Sent     uint64
	ReceiveErrors      uint64 // packets
	TransmissionErrors uint64 // packets
}
