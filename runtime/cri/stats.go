// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
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
		return nil, fmt.Errorf("ContainerStats: the runtime tells nothing of it: %w", runtime.ErrNotRunning)
	}
	out := containerStatsOf(r.Name(), st)
	out.ID.ID = id.ID
	return &out, nil
}

// ListStats implements stats.Reader with two calls. Usage of whole pods is included only if
// the second call succeeds. containerd fails the second call for all pods if a pod has no cgroup of
// its own (Options.CgroupParent), and older runtimes lack the call.
func (r *client) ListStats(ctx context.Context) ([]stats.Pod, error) {
	var containers []*api.ContainerStats
	var pods *api.ListPodSandboxStatsResponse
	var errs [2]error
	var wg sync.WaitGroup
	wg.Go(func() {
		containers, errs[0] = r.containerStats(ctx)
	})
	wg.Go(func() {
		pods, errs[1] = do(ctx, callTimeout, "ListPodSandboxStats", r.cri.ListPodSandboxStats, &api.ListPodSandboxStatsRequest{
			Filter: &api.PodSandboxStatsFilter{}, // containerd determines readiness only with a filter
		})
	})
	wg.Wait()
	if errs[0] != nil {
		return nil, errs[0]
	}
	if errs[1] != nil && ctx.Err() != nil {
		return nil, errs[1]
	}
	return podStatsOf(r.Name(), pods.GetStats(), containers), nil
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
		return 0, fmt.Errorf("ContainerStats: the runtime does not tell the memory in use: %w", runtime.ErrUnsupported)
	}
	return int64(min(st.Memory.Usage, 1<<62)), nil
}

// podStatsOf merges the runtime's stats of pods and of containers. Sandboxes and containers not
// made by an agent are left out.
func podStatsOf(name string, pods []*api.PodSandboxStats, containers []*api.ContainerStats) []stats.Pod {
	var out []stats.Pod
	place := make(map[types.UID]int)
	pod := func(labels map[string]string) *stats.Pod {
		uid := podUID(labels)
		if uid == "" {
			return nil
		}
		i, ok := place[uid]
		if !ok {
			i = len(out)
			place[uid] = i
			out = append(out, stats.Pod{UID: uid, Namespace: labels[containermeta.LabelPodNamespace], Name: labels[containermeta.LabelPodName]})
		}
		return &out[i]
	}
	for _, st := range pods {
		p := pod(st.GetAttributes().GetLabels())
		if p == nil || p.Sandbox != "" && st.GetLinux().GetCpu() == nil {
			continue // if a pod has two sandboxes, the ready sandbox counts
		}
		p.Sandbox = runtime.SandboxID(st.GetAttributes().GetId())
		p.CPU, p.Memory = cpuStatsOf(st.GetLinux().GetCpu()), memoryStatsOf(st.GetLinux().GetMemory())
		p.Network = networkStatsOf(st.GetLinux().GetNetwork())
		p.Processes = st.GetLinux().GetProcess().GetProcessCount().GetValue()
	}
	for _, c := range containers {
		if p := pod(c.GetAttributes().GetLabels()); p != nil {
			addContainer(p, name, c)
		}
	}
	for i := range out {
		byName(out[i].Containers)
	}
	return out
}

// addContainer leaves out ended containers, which have no usage.
func addContainer(pod *stats.Pod, name string, c *api.ContainerStats) {
	if st := containerStatsOf(name, c); !st.CPU.At.IsZero() || !st.Memory.At.IsZero() {
		pod.Containers = append(pod.Containers, st)
	}
}

func byName(all []stats.Container) {
	slices.SortFunc(all, func(a, b stats.Container) int {
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

func networkStatsOf(u *api.NetworkUsage) stats.Network {
	d := u.GetDefaultInterface()
	if d == nil {
		return stats.Network{}
	}
	return stats.Network{
		At: timeOf(u.GetTimestamp()), Interface: d.GetName(),
		Received: d.GetRxBytes().GetValue(), Sent: d.GetTxBytes().GetValue(),
		ReceiveErrors: d.GetRxErrors().GetValue(), TransmissionErrors: d.GetTxErrors().GetValue(),
	}
}
