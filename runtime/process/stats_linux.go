// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/keelson-dev/keelson/internal/sorted"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/cgroup"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// diskTime bounds the time for measuring working folders in one call. The disk usage of other
// folders is not reported, or is the last one.
const diskTime = time.Second

var _ interface {
	stats.Reader
	runtime.MemoryMeter
} = (*Runtime)(nil)

// ContainerStats implements stats.Reader.
func (r *Runtime) ContainerStats(ctx context.Context, id runtime.ContainerID) (*stats.Container, error) {
	s, in, err := r.openContainer(id)
	if err != nil {
		return nil, fmt.Errorf("stats of container %s: %w", id, err)
	}
	defer s.close()
	defer in.close()
	run, err := r.running(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("stats of container %s: %w", id, err)
	}
	used, err := proc.UsageBelow([]int{run.shim})
	if err != nil {
		return nil, fmt.Errorf("stats of container %s: %w", id, err)
	}
	measuring, cancel := context.WithTimeout(ctx, diskTime)
	defer cancel()
	c := r.containerStats(measuring, run, used[run.shim], time.Now())
	return &c, nil
}

// MemoryUsage implements runtime.MemoryMeter.
func (r *Runtime) MemoryUsage(ctx context.Context, id runtime.ContainerID) (int64, error) {
	st, err := r.ContainerStats(ctx, id)
	if err != nil {
		return 0, err
	}
	return int64(st.Memory.Usage), nil
}

// ListStats implements stats.Reader. All processes of the machine are read once.
func (r *Runtime) ListStats(ctx context.Context) ([]stats.Pod, error) {
	pods, runs, err := r.runningPods(ctx)
	if err != nil {
		return nil, err
	}
	var shims []int
	for _, run := range runs {
		shims = append(shims, run.shim)
	}
	used, err := proc.UsageBelow(shims)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	measuring, cancel := context.WithTimeout(ctx, diskTime)
	defer cancel()
	for _, run := range runs {
		p := &pods[run.pod]
		p.Containers = append(p.Containers, r.containerStats(measuring, run, used[run.shim], now))
		p.Processes += uint64(used[run.shim].Processes)
	}
	for i := range pods {
		sorted.By(pods[i].Containers, func(a, b stats.Container) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID.ID, b.ID.ID))
		})
	}
	r.disks.Forget()
	return pods, ctx.Err()
}

// run is a running container.
type run struct {
	key   containerKey
	pod   int // index in the list of pods
	shim  int // process ID
	group *record.Cgroup
}

// runningPods returns the pods with a running container, and these containers.
func (r *Runtime) runningPods(ctx context.Context) (pods []stats.Pod, runs []run, err error) {
	uids, err := r.uids()
	if err != nil {
		return nil, nil, err
	}
	for _, uid := range uids {
		keys, err := r.sandboxes(uid)
		if err != nil {
			return nil, nil, err
		}
		p := stats.Pod{UID: uid}
		before := len(runs)
		for _, key := range keys {
			if runs, err = r.addRunning(ctx, runs, &p, key); err != nil {
				return nil, nil, err
			}
		}
		if len(runs) == before {
			continue
		}
		for i := before; i < len(runs); i++ {
			runs[i].pod = len(pods)
		}
		pods = append(pods, p)
	}
	return pods, runs, nil
}

// addRunning appends the running containers of a sandbox. A sandbox that is being removed has none.
func (r *Runtime) addRunning(ctx context.Context, runs []run, p *stats.Pod, key sandboxKey) ([]run, error) {
	s, err := r.openSandbox(key.id())
	if errors.Is(err, runtime.ErrNotFound) {
		return runs, nil
	}
	if err != nil {
		return runs, err
	}
	defer s.close()
	keys, err := s.containers()
	if err != nil {
		return runs, err
	}
	before := len(runs)
	for _, k := range keys {
		in, err := s.open(r, k)
		if errors.Is(err, runtime.ErrNotFound) {
			continue
		}
		if err != nil {
			return runs, err
		}
		found, err := r.running(ctx, in)
		in.close()
		if err == nil {
			runs = append(runs, found)
		} else if ctx.Err() != nil {
			return runs, ctx.Err()
		}
	}
	if len(runs) > before {
		p.Sandbox, p.Namespace, p.Name = key.id(), s.rec.Namespace, s.rec.Name
	}
	return runs, nil
}

// running returns a container if it runs.
func (r *Runtime) running(ctx context.Context, in *instance) (run, error) {
	o, err := r.observe(ctx, in)
	if err == nil && o.verdict != verdictRunning {
		err = runtime.ErrNotRunning
	}
	return run{key: in.key, shim: o.process.Shim.PID, group: o.spec.Cgroup}, err
}

// addGroup replaces the usage of processes by that of the cgroup, where the kernel counts it. The
// cgroup also counts ended processes and caches.
func addGroup(out *stats.Container, u cgroup.Usage) {
	if u.CPU > 0 {
		out.CPU.UsageNanoseconds = uint64(u.CPU)
	}
	if u.Memory > 0 {
		out.Memory.Usage, out.Memory.WorkingSet, out.Memory.RSS = u.Memory, u.WorkingSet, u.RSS
	}
	if u.Processes > 0 {
		out.Processes = u.Processes
	}
}

// containerStats returns the stats of a container with the usage of its processes. A container has
// used processor time, so the time is at least 1 ns. Readers take 0 for a missing value.
func (r *Runtime) containerStats(ctx context.Context, c run, used proc.Usage, now time.Time) stats.Container {
	out := stats.Container{
		ID: c.key.id(), Name: c.key.name,
		CPU: stats.CPU{At: now, UsageNanoseconds: uint64(max(used.CPU, 1))},
		Memory: stats.Memory{
			At: now, Usage: used.RSS, WorkingSet: used.RSS, RSS: used.RSS,
			PageFaults: used.PageFaults, MajorPageFaults: used.MajorPageFaults,
		},
		Processes: uint64(used.Processes),
	}
	if c.group != nil {
		addGroup(&out, cgroup.UsageOf(c.group))
	}
	if disk, known := r.disks.Usage(ctx, filepath.Join(r.root, c.key.dir(), record.WorkDir)); known {
		out.WritableLayer = stats.FileSystem{At: disk.At, Mountpoint: r.root, UsedBytes: disk.Bytes, InodesUsed: disk.Inodes}
	}
	return out
}
