// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/internal/sorted"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// ContainerStats implements stats.Reader.
func (r *client) ContainerStats(ctx context.Context, id runtime.ContainerID) (*stats.Container, error) {
	if !goodID(id.ID) {
		return nil, notFound("ContainerStats", id.ID)
	}
	answer, err := do(ctx, callTimeout, "ContainerStats", r.cri.ContainerStats, &api.ContainerStatsRequest{ContainerId: id.ID})
	if err != nil {
		return nil, err
	}
	st := answer.GetStats()
	if st.GetCpu().GetTimestamp() == 0 && st.GetMemory().GetTimestamp() == 0 {
		return nil, fmt.Errorf("ContainerStats: the runtime reports no usage of the container: %w", runtime.ErrNotRunning)
	}
	out := containerStatsOf(r.Name(), st)
	out.ID.ID = id.ID
	return &out, nil
}

// ListStats implements stats.Reader. The usage of a whole pod includes that of its containers. If
// the runtime does not report pods, ListStats asks for the containers alone: containerd fails for
// all pods if a pod has no cgroup of its own (Options.CgroupParent), and older runtimes lack the
// call.
func (r *client) ListStats(ctx context.Context) ([]stats.Pod, error) {
	answer, err := do(ctx, callTimeout, "ListPodSandboxStats", r.listPodStats, &api.ListPodSandboxStatsRequest{
		Filter: &api.PodSandboxStatsFilter{}, // containerd determines readiness only with a filter
	})
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	var pods []sandboxUsage
	var containers []containerUsage
	if err == nil {
		if answer.err != nil {
			return nil, fmt.Errorf("ListPodSandboxStats: %w", answer.err)
		}
		pods, containers = answer.pods, answer.containers
	}
	if len(containers) == 0 {
		all, err := r.containerStats(ctx)
		if err != nil {
			return nil, err
		}
		for _, st := range all {
			containers = append(containers, containerUsageOf(r.Name(), st))
		}
	}
	return podStatsOf(pods, containers), nil
}

// containerStats asks for all containers at once. containerd 1.6 fails the call while a container
// is being removed. Then containerStats asks for each container alone and leaves out containers
// without an answer.
func (r *client) containerStats(ctx context.Context) ([]*api.ContainerStats, error) {
	answer, err := do(ctx, callTimeout, "ListContainerStats", r.cri.ListContainerStats, &api.ListContainerStatsRequest{})
	if !errors.Is(err, runtime.ErrNotFound) {
		return answer.GetStats(), err
	}
	running, err := r.listContainers(ctx, &api.ContainerFilter{State: &api.ContainerStateValue{State: api.ContainerState_CONTAINER_RUNNING}})
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var out []*api.ContainerStats
	err = forEach(ctx, running, func(ctx context.Context, c *api.Container) error {
		answer, err := do(ctx, callTimeout, "ContainerStats", r.cri.ContainerStats, &api.ContainerStatsRequest{ContainerId: c.GetId()})
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, ErrUnavailable) {
				return err
			}
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		out = append(out, answer.GetStats())
		return nil
	})
	return out, err
}

// MemoryUsage implements runtime.MemoryMeter.
func (r *client) MemoryUsage(ctx context.Context, id runtime.ContainerID) (int64, error) {
	st, err := r.ContainerStats(ctx, id)
	if err != nil {
		return 0, err
	}
	if st.Memory.Usage == 0 {
		return 0, fmt.Errorf("ContainerStats: the runtime does not report the memory in use: %w", runtime.ErrUnsupported)
	}
	return int64(min(st.Memory.Usage, 1<<62)), nil
}

// podStatsOf merges the runtime's stats of pods and of containers. Sandboxes and containers not
// made by an agent are left out, and so are ended containers, which have no usage.
func podStatsOf(pods []sandboxUsage, containers []containerUsage) []stats.Pod {
	out := make([]stats.Pod, 0, len(pods))
	place := make(map[string]int, len(pods))
	pod := func(o *owner) *stats.Pod {
		if o.uid == "" {
			return nil
		}
		i, ok := place[o.uid]
		if !ok {
			i = len(out)
			place[o.uid] = i
			out = append(out, stats.Pod{UID: types.UID(o.uid), Namespace: o.namespace, Name: o.pod})
		}
		return &out[i]
	}
	for i := range pods {
		st := &pods[i]
		p := pod(&st.owner)
		if p == nil || p.Sandbox != "" && st.CPU.At.IsZero() {
			continue // if a pod has two sandboxes, the ready sandbox counts
		}
		p.Sandbox = runtime.SandboxID(st.id)
		p.CPU, p.Memory, p.Network, p.Processes = st.CPU, st.Memory, st.Network, st.Processes
	}
	for i := range containers {
		c := &containers[i]
		if p := pod(&c.owner); p != nil && (!c.CPU.At.IsZero() || !c.Memory.At.IsZero()) {
			p.Containers = append(p.Containers, c.Container)
		}
	}
	for i := range out {
		byName(out[i].Containers)
	}
	return out
}

// containerUsageOf returns the usage of a container with its owner.
func containerUsageOf(name string, st *api.ContainerStats) containerUsage {
	labels := st.GetAttributes().GetLabels()
	return containerUsage{
		owner:     owner{uid: labels[containermeta.LabelPodUID], namespace: labels[containermeta.LabelPodNamespace], pod: labels[containermeta.LabelPodName]},
		Container: containerStatsOf(name, st),
	}
}

func byName(all []stats.Container) {
	sorted.By(all, func(a, b stats.Container) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID.ID, b.ID.ID))
	})
}

func containerStatsOf(name string, st *api.ContainerStats) stats.Container {
	a, layer := st.GetAttributes(), st.GetWritableLayer()
	return stats.Container{
		ID:     runtime.ContainerID{Runtime: name, ID: a.GetId()},
		Name:   cmp.Or(a.GetLabels()[containermeta.LabelContainerName], a.GetMetadata().GetName()),
		CPU:    cpuStatsOf(st.GetCpu()),
		Memory: memoryStatsOf(st.GetMemory()),
		Swap:   swapStatsOf(st.GetSwap()),
		WritableLayer: stats.FileSystem{
			At: timeOf(layer.GetTimestamp()), Mountpoint: layer.GetFsId().GetMountpoint(),
			UsedBytes: layer.GetUsedBytes().GetValue(), InodesUsed: layer.GetInodesUsed().GetValue(),
		},
	}
}

// cpuStatsOf is zero where the value is missing, whatever the time says.
func cpuStatsOf(u *api.CpuUsage) stats.CPU {
	if u.GetUsageCoreNanoSeconds() == nil {
		return stats.CPU{}
	}
	return stats.CPU{At: timeOf(u.GetTimestamp()), UsageNanoseconds: u.GetUsageCoreNanoSeconds().GetValue()}
}

func memoryStatsOf(u *api.MemoryUsage) stats.Memory {
	if u.GetWorkingSetBytes() == nil && u.GetUsageBytes() == nil {
		return stats.Memory{}
	}
	return stats.Memory{
		At: timeOf(u.GetTimestamp()), Usage: u.GetUsageBytes().GetValue(), WorkingSet: u.GetWorkingSetBytes().GetValue(),
		RSS: u.GetRssBytes().GetValue(), PageFaults: u.GetPageFaults().GetValue(), MajorPageFaults: u.GetMajorPageFaults().GetValue(),
	}
}

func swapStatsOf(u *api.SwapUsage) stats.Swap {
	if u.GetSwapUsageBytes() == nil {
		return stats.Swap{}
	}
	return stats.Swap{At: timeOf(u.GetTimestamp()), Used: u.GetSwapUsageBytes().GetValue(), Available: u.GetSwapAvailableBytes().GetValue()}
}
