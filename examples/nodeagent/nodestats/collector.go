// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats/cgroup"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
	"github.com/keelson-dev/keelson/internal/diskuse"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// Options configure a Collector.
type Options struct {
	// NodeName is the name of the node. Required.
	NodeName string
	// Pods returns the pods of the node with their statuses. The pods are not changed. Required.
	Pods func() []*v1.Pod
	// Runtime measures containers. Defaults to nil: snapshots have no usage of containers.
	Runtime stats.Reader
	// Root is the folder with the volumes of pods, Root/pods/UID/volumes. Its file system is the
	// file system of the node. LogDir is the folder with the logs of containers. Both are required,
	// and absolute.
	Root, LogDir string
	// ImageFS returns the usage of the file system that holds images. Defaults to nil: it is not
	// reported.
	ImageFS func(context.Context) (stats.FileSystem, error)
	// Cgroups finds the cgroups of containers, for their networks and for /metrics/cadvisor.
	// Defaults to nil: both lack the values that only cgroups have.
	Cgroups *cgroup.Tree
	// PodsCgroup is the path of the cgroup of all pods in Cgroups. Defaults to "": the usage of all pods
	// is a sum, and Free does not know their memory.
	PodsCgroup string
	// Contained says that the node is a container on its machine: the node's processor time and memory
	// are those of the root of Cgroups, and a limit of memory there counts. Defaults to false: they are
	// those of the machine.
	Contained bool
	// VolumeFolders returns the names of the folders of a pod's mounted volumes, by their names in the
	// pod spec. The folder of a claim's volume has the name of the PersistentVolume. Defaults to nil:
	// volumes of claims are not reported.
	VolumeFolders func(types.UID) map[string]string
	// Machine is the machine to measure. Defaults to the machine of this process.
	Machine host.Machine
}

// maxAge is the age up to which a snapshot is used again.
const maxAge = 5 * time.Second

// Detail is the extent of a Snapshot.
type Detail uint8

const (
	// Complete is everything, including file systems and volumes.
	Complete Detail = iota
	// CPUAndMemory is processor time, memory and swap only. It reads no disk.
	CPUAndMemory
	// Containers is CPUAndMemory with the values of each container's cgroup. It walks no folders.
	Containers

	details
)

// Request says which Snapshot is wanted. The zero value asks for a complete snapshot of the default
// age.
type Request struct {
	Detail Detail
	// Fresh asks for a measurement that begins after the call of Collect. Defaults to false: the
	// snapshot may be 5 s old.
	Fresh bool
	// WalkTime bounds the walks through folders of a complete measurement. Defaults to 2 s.
	WalkTime time.Duration
}

// DiskUsage is used space.
type DiskUsage struct{ Bytes, Inodes uint64 }

// Snapshot is the usage of a node at one time. It is shared and must not be written.
type Snapshot struct {
	At      time.Time // the begin of the measurement
	Summary *statsapi.Summary
	// Pods are the pods with usage in the Summary that the node knows, by UID.
	Pods map[types.UID]*v1.Pod
	// Machine is the usage of the machine.
	Machine host.Usage
	// MemoryCapacity is the memory of the machine in bytes, 0 if unknown.
	MemoryCapacity uint64
	// Containers are the measurements of the runtime.
	Containers []stats.Pod
	// Cgroups has the usage of containers by container ID, without the name of the runtime. It may be
	// empty unless the detail is Containers.
	Cgroups map[string]*Cgroup
	// Networks has the interfaces of pods with a network of their own, by UID. It may be empty if
	// the detail is CPUAndMemory.
	Networks map[types.UID]Network
	// Tasks has the numbers of processes and threads in the containers' cgroups, by the UID of the
	// pod. It may be empty if the detail is CPUAndMemory.
	Tasks map[types.UID]uint64
	// EndedLogs has the logs of containers that do not run, by the UID of the pod. The Summary counts
	// them for the pod only. It may be empty unless the detail is Complete.
	EndedLogs map[types.UID]DiskUsage

	capacities map[string]uint64 // of the file systems of containers, in bytes, by a folder
	devices    map[string]string // names of block devices by number
}

// Cgroup is the cgroup of a container.
type Cgroup struct {
	Path  string // with a leading slash
	At    time.Time
	Usage cgroup.Usage
}

// Network is the network of a pod.
type Network struct {
	Cgroup     string // path of the pod's cgroup; "" if it is not known
	At         time.Time
	Interfaces []host.Interface
}

// Collector measures a node. Its methods may be called by many goroutines.
type Collector struct {
	Options

	// turn is held by the goroutine that measures, and guards the fields below and Cgroups.
	turn  chan struct{}
	began time.Time
	last  *measurement
	// processes has a process of each container whose network was read, by container ID.
	processes map[string]int
	disks     diskuse.Meter
	rates     rates
	listings  folders // of logs and volumes

	systems systemMeter // not guarded by turn

	mu struct {
		sync.Mutex
		last [details]*Snapshot // by Detail
	}
}

// New validates opts. Errors name the field. New measures nothing and starts no goroutine.
func New(opts Options) (*Collector, error) {
	switch {
	case opts.NodeName == "":
		return nil, errors.New("nodestats: Options.NodeName is required")
	case opts.Pods == nil:
		return nil, errors.New("nodestats: Options.Pods is required")
	case !filepath.IsAbs(opts.Root):
		return nil, fmt.Errorf("nodestats: Options.Root %q: want an absolute path", opts.Root)
	case !filepath.IsAbs(opts.LogDir):
		return nil, fmt.Errorf("nodestats: Options.LogDir %q: want an absolute path", opts.LogDir)
	}
	c := &Collector{Options: opts, turn: make(chan struct{}, 1), began: time.Now(), processes: map[string]int{}}
	if m, ok := opts.Runtime.(stats.DiskMeter); ok {
		c.disks.Blocked = func(ctx context.Context, folder string) (diskuse.Usage, error) {
			u, err := m.DiskUsage(ctx, folder)
			return diskuse.Usage{At: u.At, Bytes: u.UsedBytes, Inodes: u.InodesUsed}, err
		}
	}
	return c, nil
}

// Collect returns a snapshot. If another call measures, Collect waits for its result, and measures
// afterwards what the result lacks. The error is ctx's, the runtime's, or that
// of Options.ImageFS.
func (c *Collector) Collect(ctx context.Context, r Request) (*Snapshot, error) {
	oldest := time.Now()
	if !r.Fresh {
		oldest = oldest.Add(-maxAge)
	}
	if s := c.kept(r.Detail, oldest); s != nil {
		return s, nil
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s := c.kept(r.Detail, oldest); s != nil { // of the call that measured before
		return s, nil
	}
	s, err := c.measure(ctx, r, oldest)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.last[r.Detail] = s
	return s, nil
}

// kept returns the last snapshot with the detail that began at the time oldest or later. Every
// snapshot satisfies a request for CPUAndMemory.
func (c *Collector) kept(d Detail, oldest time.Time) *Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.mu.last[d]; s != nil && !s.At.Before(oldest) {
		return s
	}
	if d == CPUAndMemory {
		for _, s := range c.mu.last {
			if s != nil && !s.At.Before(oldest) {
				return s
			}
		}
	}
	return nil
}
