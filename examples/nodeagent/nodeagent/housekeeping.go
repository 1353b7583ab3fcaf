// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

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
	works := a.reconcile()
	if a.readiness.AllReady() {
		a.memory.keep(works)
		a.look(ctx)
	}
}

// reconcile tells the workers what is wanted, and returns what they work on.
func (a *Agent) reconcile() (works func(types.UID) bool) {
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
			if told := a.opts.Observer.PodRestarted; told != nil {
				told(pod)
			}
			a.update(podworkers.UpdateCreate, pod)
			working[pod.UID] = podworkers.WorkerInfo{}
		}
	}
	works = func(uid types.UID) bool {
		_, ok := working[uid]
		return ok || a.gate.holds(uid) // what runs of it may be wanted
	}
	known := func(uid types.UID) bool { return works(uid) || wanted[uid] }
	a.statuses.keep(known)
	a.failures.keep(known)
	a.declarations.keep(known)
	a.syncer.keep(known)
	a.syncer.renewals.keep(func(uid types.UID) bool { return known(uid) || !a.collector.isGone(uid) })
	a.collector.forget()
	a.probes.CleanupPods(known)
	_, staticOf := a.index.Translations()
	a.status.RemoveOrphanedStatuses(func(uid types.UID) bool { return known(uid) || staticOf[uid] != "" })
	a.mirrors.poke()
	return works
}

// collector removes what pods that are over have left: records, volumes, logs.
// It works beside the loop, one pod at a time; a worker that is about to sync a
// pod waits for it (settled), so a UID that comes back finds a clean slate.
type collector struct {
	manager *runtime.Manager
	volumes *volumes
	logs    string
	log     *zap.Logger
	wg      sync.WaitGroup

	failures *failures

	mu struct {
		sync.Mutex
		busy map[types.UID]chan struct{} // closed when the removal has ended
		gone map[types.UID]time.Time     // since when the runtime has nothing of a pod, lately
	}
}

func newCollector(m *runtime.Manager, v *volumes, logs string, log *zap.Logger) *collector {
	c := &collector{manager: m, volumes: v, logs: logs, log: log, failures: newFailures()}
	c.mu.busy = make(map[types.UID]chan struct{})
	c.mu.gone = make(map[types.UID]time.Time)
	return c
}

// beside does f in the background, unless something for this pod is under way
// there. What fails is logged once, until it fails differently.
func (c *collector) beside(ctx context.Context, uid types.UID, f func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.busy[uid] != nil {
		return
	}
	done := make(chan struct{})
	c.mu.busy[uid] = done
	c.wg.Go(func() {
		defer close(done)
		err := f()
		c.mu.Lock()
		delete(c.mu.busy, uid)
		c.mu.Unlock()
		text := ""
		if err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if c.failures.changed(uid, text) && text != "" {
			c.log.Warn("cannot clear up what a pod has left", zap.String("podUID", string(uid)), zap.Error(err))
		}
	})
}

// collect removes one pod's leftovers.
func (c *collector) collect(ctx context.Context, uid types.UID) {
	c.beside(ctx, uid, func() error {
		if err := c.manager.RemovePod(ctx, uid); err != nil {
			return err
		}
		c.noteGone(uid)
		return errors.Join(c.volumes.purge(ctx, uid), c.removeLogs(uid))
	})
}

// goneMemory is for how long it is remembered that the runtime has nothing of a
// pod. By then the tracker has listed again.
const goneMemory = 5 * time.Minute

func (c *collector) noteGone(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.gone[uid] = time.Now()
}

// forget drops what is older than goneMemory.
func (c *collector) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.mu.gone, func(_ types.UID, at time.Time) bool { return time.Since(at) > goneMemory })
}

// isGone reports whether the runtime was found to have nothing of the pod. The
// tracker's listing may be older than that.
func (c *collector) isGone(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.mu.gone[uid].IsZero()
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
// runtime knows: what a crash between two removals leaves. It returns whose they are.
func (c *collector) sweep(ctx context.Context, known func(types.UID) bool) (left []types.UID) {
	folders, err := os.ReadDir(filepath.Join(c.volumes.agent.opts.Root, "pods"))
	if err != nil {
		return nil // there is none, or the next pod that needs one will say why
	}
	for _, f := range folders {
		if uid := types.UID(f.Name()); !known(uid) {
			c.collect(ctx, uid)
			left = append(left, uid)
		}
	}
	return left
}

// settled waits until no removal of this pod is under way. What was known of it is
// not known any more.
func (c *collector) settled(ctx context.Context, uid types.UID) error {
	c.mu.Lock()
	busy := c.mu.busy[uid]
	delete(c.mu.gone, uid)
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
