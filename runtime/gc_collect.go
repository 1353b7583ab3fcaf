// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// gcParallel is the number of pods inspected and cleaned up at the same time. A pod with a hanging
// call occupies its place until the call ends. The actions for a pod run in the order of the plan.
const gcParallel = 4

// GarbageCollect removes garbage from the runtime and from disk. It looks once at all pods of the
// runtime. The kubelet does so once a minute, and with GCPolicy.AllUnused when disk space runs
// short. The function planGC defines garbage.
//
// GarbageCollect also removes the leftovers of a backend that implements Auditor, if the leftovers
// provably belong to the backend.
//
// GarbageCollect is the safety net: SyncPod prunes ended instances when it starts their successor,
// and RemovePod removes a pod at once. Without garbage it costs a List and, with a LogRoot, a look
// into the log folders.
//
// Instances that may be running are stopped before their removal, and sandboxes are stopped again.
// If the stop fails, the object stays. Errors are joined, and the next call tries again. A failure
// delays no other removal, with two exceptions: a sandbox follows its containers, and a log folder
// follows the whole pod. GarbageCollect may run beside all other methods. When ctx ends, it returns
// as soon as the runtime returns.
func (m *Manager) GarbageCollect(ctx context.Context, policy GCPolicy, query GCQuery) error {
	if err := policy.validate(); err != nil {
		return err
	}
	pods, err := m.rt.List(ctx, ListOptions{})
	if err != nil {
		return fmt.Errorf("garbage collection: list pods: %w", err)
	}
	disk, diskErr := openGCDisk(policy)
	defer disk.close()
	in := gcInput{Policy: policy, Query: query, Now: time.Now(), Pods: pods}
	var logsErr, linksErr error
	in.Logs, logsErr = disk.folders()
	in.Links, linksErr = disk.deadLinks()
	blind, blindErr := m.lookCloser(ctx, &in)

	work := byPod(planGC(in), blind)
	errs := make([]error, len(work))
	inParallel(ctx, len(work), func(i int) {
		c := &collection{m: m, query: query, disk: disk}
		errs[i] = c.run(ctx, work[i])
	})
	errs = append([]error{diskErr, logsErr, linksErr, blindErr, m.collectLeftovers(ctx)}, errs...)
	if ctx.Err() != nil {
		errs = append(errs, context.Cause(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("garbage collection: %w", err)
	}
	return nil
}

// inParallel calls f(0) … f(n-1), at most gcParallel at a time. After the end of ctx no further
// call begins. It returns after the end of all calls.
func inParallel(ctx context.Context, n int, f func(i int)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, gcParallel)
	for i := range n {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // also if there is a free slot
			return
		}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
}

// lookCloser reads the full status of pods for which the listing lacks details: times, if the plan
// depends on times, and restart counts, if there are more log files than records. Usually no pod
// needs it. blind has the pods that could not be read, for which no removal is allowed.
func (m *Manager) lookCloser(ctx context.Context, in *gcInput) (blind map[types.UID]bool, err error) {
	which := tooBrief(*in)
	errs := make([]error, len(which))
	inParallel(ctx, len(which), func(i int) {
		status := &in.Pods[which[i]]
		full, err := m.rt.PodStatus(ctx, (*status).UID)
		if err != nil {
			errs[i] = fmt.Errorf("pod %s: read its status: %w", (*status).UID, err)
			return
		}
		*status = full
	})
	if ctx.Err() != nil {
		return nil, nil // the interruption may have caused the errors, and nothing is removed any more
	}
	blind = make(map[types.UID]bool)
	for i, err := range errs {
		if err != nil {
			blind[in.Pods[which[i]].UID] = true
		}
	}
	return blind, errors.Join(errs...)
}

// tooBrief returns the indexes of the pods for lookCloser.
func tooBrief(in gcInput) []int {
	// A plan treats unknown times as very old. Its actions therefore include those of a plan with
	// the right times.
	plan := planGC(in)
	times := len(plan) > 0 && (in.Policy.MinAge > 0 || in.Policy.total() >= 0)
	changes := make(map[types.UID]bool)
	for _, a := range plan {
		changes[a.UID] = changes[a.UID] || a.Op == gcRemoveContainer && a.Fate != PodGone
	}
	logs := make(map[types.UID][]logFiles)
	for _, folder := range in.Logs {
		logs[folder.UID] = append(logs[folder.UID], folder.Containers...)
	}
	var out []int
	for i, status := range in.Pods {
		files := logs[status.UID]
		if times && lacksTimes(status) || changes[status.UID] && len(files) > 0 || surplusLogs(status, files) {
			out = append(out, i)
		}
	}
	return out
}

func lacksTimes(status *PodStatus) bool {
	return slices.ContainsFunc(status.Containers, func(c ContainerStatus) bool {
		return c.State != StateRunning && (c.CreatedAt.IsZero() || c.State == StateExited && c.FinishedAt.IsZero())
	})
}

// surplusLogs reports whether a container has logs of more instances than it has records.
func surplusLogs(status *PodStatus, files []logFiles) bool {
	return slices.ContainsFunc(files, func(f logFiles) bool {
		records := 0
		for i := range status.Containers {
			if status.Containers[i].Name == f.Container {
				records++
			}
		}
		return len(f.RestartCounts) > max(records, 1)
	})
}

// byPod splits a plan by pod, in the order of the first actions. Actions without a pod form a
// group, too. Actions for blind pods are omitted.
func byPod(actions []gcAction, blind map[types.UID]bool) [][]gcAction {
	var out [][]gcAction
	index := make(map[types.UID]int)
	for _, a := range actions {
		if blind[a.UID] {
			continue
		}
		i, ok := index[a.UID]
		if !ok {
			i = len(out)
			index[a.UID] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], a)
	}
	return out
}
