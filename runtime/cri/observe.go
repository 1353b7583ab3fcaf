// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/runtime"
)

func (r *client) listSandboxes(ctx context.Context, filter *api.PodSandboxFilter) ([]*api.PodSandbox, error) {
	answer, err := do(ctx, callTimeout, "ListPodSandbox", r.cri.ListPodSandbox, &api.ListPodSandboxRequest{Filter: filter})
	return answer.GetItems(), err
}

func (r *client) listContainers(ctx context.Context, filter *api.ContainerFilter) ([]*api.Container, error) {
	answer, err := do(ctx, callTimeout, "ListContainers", r.cri.ListContainers, &api.ListContainersRequest{Filter: filter})
	return answer.GetContainers(), err
}

func (r *client) containerStatus(ctx context.Context, id string) (*api.ContainerStatus, error) {
	answer, err := do(ctx, callTimeout, "ContainerStatus", r.cri.ContainerStatus, &api.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return nil, err
	}
	if answer.GetStatus().GetId() == "" || answer.GetStatus().GetMetadata() == nil {
		return nil, &CallError{Call: "ContainerStatus", Message: "the runtime answered without a status"}
	}
	r.learnMounts(answer.GetStatus())
	return answer.GetStatus(), nil
}

// lists asks for sandboxes and containers at the same time.
func (r *client) lists(ctx context.Context, sf *api.PodSandboxFilter, cf *api.ContainerFilter) ([]*api.PodSandbox, []*api.Container, error) {
	var sandboxes []*api.PodSandbox
	var containers []*api.Container
	var errs [2]error
	var wg sync.WaitGroup
	wg.Go(func() { sandboxes, errs[0] = r.listSandboxes(ctx, sf) })
	wg.Go(func() { containers, errs[1] = r.listContainers(ctx, cf) })
	wg.Wait()
	return sandboxes, containers, errors.Join(errs[0], errs[1])
}

// List implements runtime.Runtime with two calls, and one more call for each container exited since
// the last List, to learn whether the container ever ran. A container without a quick answer is
// reported as exited for now. Sandboxes and containers without a label of a pod's UID are left out.
func (r *client) List(ctx context.Context, opts runtime.ListOptions) ([]*runtime.PodStatus, error) {
	at := time.Now()
	var filter *api.PodSandboxFilter
	if opts.RunningOnly {
		filter = &api.PodSandboxFilter{State: &api.PodSandboxStateValue{State: api.PodSandboxState_SANDBOX_READY}}
	}
	sandboxes, containers, err := r.lists(ctx, filter, nil)
	if err != nil {
		return nil, err
	}
	if opts.RunningOnly {
		containers = deleteFunc(containers, func(c *api.Container) bool { return !mayRun(c.GetState()) })
	} else {
		if containers = r.judge(ctx, containers); ctx.Err() != nil {
			return nil, fmt.Errorf("ContainerStatus: %w", ctx.Err())
		}
		r.sweep(sandboxes, containers, at)
	}
	return r.group(sandboxes, containers, at), nil
}

// sweep drops the cached facts of removed sandboxes and containers. Marks made since at, the start
// of the listing, are kept.
func (r *client) sweep(sandboxes []*api.PodSandbox, containers []*api.Container, at time.Time) {
	ids := make(map[string]bool, len(sandboxes)+len(containers))
	for _, s := range sandboxes {
		ids[s.GetId()] = true
	}
	for _, c := range containers {
		ids[c.GetId()] = true
	}
	r.mu.Lock()
	for id := range r.mu.sandboxes {
		if !ids[string(id)] {
			delete(r.mu.sandboxes, id) // a sandbox under construction is read again later
		}
	}
	for id := range r.mu.neverRan {
		if !ids[id] {
			delete(r.mu.neverRan, id)
		}
	}
	for id := range r.mu.askAgain {
		if !ids[id] {
			delete(r.mu.askAgain, id)
		}
	}
	for id := range r.mu.mounted {
		if !ids[id] {
			delete(r.mu.mounted, id)
		}
	}
	r.mu.Unlock()
	r.files.unmarkAll(ids, at)
}

// group makes the pods' statuses of two lists.
func (r *client) group(sandboxes []*api.PodSandbox, containers []*api.Container, at time.Time) []*runtime.PodStatus {
	var out []*runtime.PodStatus
	byUID := make(map[types.UID]*runtime.PodStatus, len(sandboxes))
	pod := func(labels map[string]string) *runtime.PodStatus {
		uid := podUID(labels)
		if uid == "" {
			return nil
		}
		st := byUID[uid]
		if st == nil {
			st = &runtime.PodStatus{UID: uid, Namespace: labels[containermeta.LabelPodNamespace], Name: labels[containermeta.LabelPodName], ObservedAt: at}
			byUID[uid] = st
			out = append(out, st)
		}
		return st
	}
	for _, s := range sandboxes {
		if st := pod(s.GetLabels()); st != nil && s.GetMetadata() != nil {
			st.Sandboxes = append(st.Sandboxes, runtime.SandboxStatus{
				ID: runtime.SandboxID(s.GetId()), Attempt: s.GetMetadata().GetAttempt(),
				Ready: s.GetState() == api.PodSandboxState_SANDBOX_READY, CreatedAt: timeOf(s.GetCreatedAt()),
			})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range containers {
		if st := pod(c.GetLabels()); st != nil && c.GetMetadata() != nil {
			st.Containers = append(st.Containers, listedContainer(r.info.Name, c, r.mu.neverRan[c.GetId()]))
		}
	}
	for _, st := range out {
		newestFirst(st)
	}
	return out
}

// listedContainer translates an entry of a list, which has fewer fields than a status.
func listedContainer(name string, c *api.Container, neverRan bool) runtime.ContainerStatus {
	out := containerOf(name, c.GetPodSandboxId(), &api.ContainerStatus{
		Id: c.GetId(), Metadata: c.GetMetadata(), Labels: c.GetLabels(), Annotations: c.GetAnnotations(),
		Image: c.GetImage(), ImageRef: c.GetImageRef(), ImageId: c.GetImageId(), CreatedAt: c.GetCreatedAt(),
	}, "")
	if out.State = stateOf(c.GetState()); neverRan {
		out.State = runtime.StateCreated
	}
	return out
}

// PodStatus implements runtime.Runtime with two lists and one call for each sandbox and container.
// Objects removed between the two are left out.
func (r *client) PodStatus(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	st := &runtime.PodStatus{UID: uid, ObservedAt: time.Now()}
	if uid == "" {
		return st, nil
	}
	selector := map[string]string{containermeta.LabelPodUID: string(uid)}
	sandboxes, containers, err := r.lists(ctx, &api.PodSandboxFilter{LabelSelector: selector}, &api.ContainerFilter{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", uid, err)
	}
	switch {
	case len(sandboxes) > 0:
		st.Namespace, st.Name = sandboxes[0].GetLabels()[containermeta.LabelPodNamespace], sandboxes[0].GetLabels()[containermeta.LabelPodName]
	case len(containers) > 0:
		st.Namespace, st.Name = containers[0].GetLabels()[containermeta.LabelPodNamespace], containers[0].GetLabels()[containermeta.LabelPodName]
	}
	if err := r.inspect(ctx, st, sandboxes, containers); err != nil {
		return nil, fmt.Errorf("pod %s: %w", uid, err)
	}
	newestFirst(st)
	return st, nil
}

// inspect fills st in, several at a time.
func (r *client) inspect(ctx context.Context, st *runtime.PodStatus, sandboxes []*api.PodSandbox, containers []*api.Container) error {
	var mu sync.Mutex
	var looks []func(context.Context) error
	for _, s := range sandboxes {
		looks = append(looks, func(ctx context.Context) error {
			found, err := r.sandboxStatus(ctx, s.GetId())
			if err != nil {
				return gone(err)
			}
			status := sandboxOf(found)
			r.learnIPs(status.ID, slices.Clone(status.IPs))
			mu.Lock()
			defer mu.Unlock()
			st.Sandboxes = append(st.Sandboxes, status)
			return nil
		})
	}
	for _, c := range containers {
		looks = append(looks, func(ctx context.Context) error {
			found, err := r.containerStatus(ctx, c.GetId())
			if err != nil {
				return gone(err)
			}
			status := containerOf(r.info.Name, c.GetPodSandboxId(), found, r.message(found))
			mu.Lock()
			defer mu.Unlock()
			st.Containers = append(st.Containers, status)
			return nil
		})
	}
	return forEach(ctx, looks, func(ctx context.Context, look func(context.Context) error) error { return look(ctx) })
}

// parallelInspections bounds how many containers and sandboxes one call inspects concurrently.
const parallelInspections = 8

// forEach calls f for every item, at most parallelInspections at a time. forEach returns the first
// error and starts no more calls after an error.
func forEach[T any](ctx context.Context, items []T, f func(context.Context, T) error) error {
	if len(items) == 1 {
		return f(ctx, items[0])
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var first error
	next := 0
	take := func() (T, bool) {
		mu.Lock()
		defer mu.Unlock()
		var none T
		if next == len(items) || first != nil {
			return none, false
		}
		next++
		return items[next-1], true
	}
	var wg sync.WaitGroup
	for range min(parallelInspections, len(items)) {
		wg.Go(func() {
			for item, ok := take(); ok; item, ok = take() {
				if err := f(ctx, item); err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
					cancel()
				}
			}
		})
	}
	wg.Wait()
	return first
}

// deleteFunc is slices.DeleteFunc on a copy: answers are not written.
func deleteFunc[T any](in []T, del func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(in), del)
}
