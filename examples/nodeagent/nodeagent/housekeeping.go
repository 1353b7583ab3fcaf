// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/runtime"
)

// housekeep makes an end of what is not wanted any more: it lets the workers
// forget pods that are over, and restarts pods whose UID came back while they
// ended. Pods that only the runtime knows are stopped, and what is left of them
// is removed, once every source has said what it wants: until then somebody may
// still claim them.
func (a *Agent) housekeep(ctx context.Context) {
	desired := a.pods.all()
	admitted := make([]*v1.Pod, 0, len(desired))
	wanted := make(map[types.UID]bool, len(desired))
	for _, pod := range desired {
		wanted[pod.UID] = true
		if !a.pods.isRejected(pod.UID) {
			admitted = append(admitted, pod)
		}
	}
	// The workers know only pods that a source once wanted, so one that is not
	// desired any more was removed by its source, however silent others are.
	working := a.workers.SyncKnownPods(admitted)
	for _, pod := range admitted {
		if _, ok := working[pod.UID]; !ok {
			a.update(podworkers.UpdateCreate, pod)
			working[pod.UID] = podworkers.WorkerInfo{}
		}
	}
	works := func(uid types.UID) bool {
		_, ok := working[uid]
		return ok
	}
	known := func(uid types.UID) bool { return works(uid) || wanted[uid] }
	a.statuses.keep(known)
	a.failures.keep(known)
	if a.readiness.AllReady() {
		a.clearUp(ctx, works)
	}
}

// clearUp deals with what the runtime and the disk have of pods that nobody
// works on.
func (a *Agent) clearUp(ctx context.Context, works func(types.UID) bool) {
	listed, err := a.runtime.List(ctx, runtime.ListOptions{})
	if err != nil {
		if ctx.Err() == nil {
			a.log.Warn("cannot look for leftover pods", zap.Error(err))
		}
		return
	}
	for _, status := range listed {
		switch {
		case works(status.UID):
		case len(status.Running()) > 0 || status.Current() != nil:
			a.stopOrphan(ctx, status.UID)
		default:
			a.collector.collect(ctx, a.log, status)
		}
	}
	a.collector.sweep(ctx, a.log, works)
}

// stopOrphan ends a pod that only the runtime knows, with the grace period that
// its containers were made with.
func (a *Agent) stopOrphan(ctx context.Context, uid types.UID) {
	status, err := a.runtime.PodStatus(ctx, uid)
	if err != nil {
		a.log.Warn("cannot look at a pod that nobody wants", zap.String("podUID", string(uid)), zap.Error(err))
		return
	}
	grace := runtime.MinGracePeriod
	for _, c := range status.Running() {
		pod, container := runtime.RestorePod(status, c)
		grace = max(grace, runtime.GracePeriod(pod, container, runtime.KillPodTerminating))
	}
	seconds := int64(grace.Seconds())
	err = a.workers.UpdatePod(podworkers.Update{
		Type:   podworkers.UpdateKill,
		Orphan: &podworkers.Orphan{UID: uid, Namespace: status.Namespace, Name: status.Name},
		Kill:   &podworkers.KillOptions{GracePeriodSeconds: &seconds},
	})
	if err != nil {
		a.log.Error("cannot stop a pod that nobody wants", zap.String("podUID", string(uid)), zap.Error(err))
	}
}

// collector removes what pods that are over have left: records, volumes, logs.
// It works beside the loop, one pod at a time; a worker that is about to sync a
// pod waits for it (settled), so a UID that comes back finds a clean slate.
type collector struct {
	manager *runtime.Manager
	volumes volumes
	logs    string
	wg      sync.WaitGroup

	mu struct {
		sync.Mutex
		busy map[types.UID]chan struct{} // closed when the removal has ended
	}
}

func newCollector(m *runtime.Manager, v volumes, logs string) *collector {
	c := &collector{manager: m, volumes: v, logs: logs}
	c.mu.busy = make(map[types.UID]chan struct{})
	return c
}

// collect removes one pod's leftovers in the background, unless that is under
// way.
func (c *collector) collect(ctx context.Context, log *zap.Logger, status *runtime.PodStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.busy[status.UID] != nil {
		return
	}
	done := make(chan struct{})
	c.mu.busy[status.UID] = done
	c.wg.Go(func() {
		defer close(done)
		err := c.remove(ctx, status)
		c.mu.Lock()
		delete(c.mu.busy, status.UID)
		c.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			log.Warn("could not remove all that a pod has left", zap.String("podUID", string(status.UID)), zap.Error(err))
		}
	})
}

func (c *collector) remove(ctx context.Context, status *runtime.PodStatus) error {
	if err := c.manager.RemovePod(ctx, status.UID); err != nil {
		return err
	}
	return errors.Join(c.volumes.purge(status.UID), c.removeLogs(status.UID))
}

// removeLogs removes the pod's log folder, whose name ends in its UID.
func (c *collector) removeLogs(uid types.UID) error {
	folders, err := os.ReadDir(c.logs)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove logs: %w", err)
	}
	for _, f := range folders {
		if !strings.HasSuffix(f.Name(), "_"+string(uid)) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(c.logs, f.Name())); err != nil {
			return fmt.Errorf("remove logs: %w", err)
		}
	}
	return nil
}

// sweep removes volume folders of pods that neither the configuration nor the
// runtime knows: what a crash between two removals leaves.
func (c *collector) sweep(ctx context.Context, log *zap.Logger, known func(types.UID) bool) {
	folders, err := os.ReadDir(c.volumes.root)
	if err != nil {
		return // there is none, or the next pod that needs one will say why
	}
	for _, f := range folders {
		if uid := types.UID(f.Name()); !known(uid) {
			c.collect(ctx, log, &runtime.PodStatus{UID: uid})
		}
	}
}

// settled waits until no removal of this pod is under way.
func (c *collector) settled(ctx context.Context, uid types.UID) error {
	c.mu.Lock()
	busy := c.mu.busy[uid]
	c.mu.Unlock()
	if busy == nil {
		return nil
	}
	select {
	case <-busy:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// wait returns when nothing is being removed.
func (c *collector) wait() { c.wg.Wait() }
