// SPDX-License-Identifier: Apache-2.0

package cgroups

import (
	"context"
	"errors"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

// Event reasons of the kubelet (1.36).
const (
	eventFailed      = "FailedToCreatePodContainer"
	eventEnforced    = "NodeAllocatableEnforced"
	eventNotEnforced = "FailedNodeAllocatableEnforcement"
)

// refreshInterval is the time between two writes of the cgroups that all pods share.
const refreshInterval = time.Minute

// Feature returns the functions that the Groups add to a node. SetUp must have been called.
func (g *Groups) Feature(h *feature.Host) feature.Feature {
	g.pods = feature.NewLastingSlot[*group](h.Table) // a cgroup of an earlier agent may be of a pod without a source
	return feature.Feature{
		Name: "cgroups",
		Hook: podsync.Hook{
			Around: func(ctx context.Context, req *runtime.SyncRequest) (func(), error) {
				err := g.prepare(ctx, req.Pod, req.Status)
				if err != nil && ctx.Err() == nil {
					h.Event(req.Pod, v1.EventTypeWarning, eventFailed, "unable to ensure pod container exists: "+err.Error())
				}
				return nil, err
			},
			Synced:  func(_ context.Context, pod *v1.Pod, result *runtime.Result) { g.shrink(pod, result) },
			Release: g.release,
		},
		Open: func() {
			if err := g.load(); err != nil {
				g.opts.Logger.Error("cgroups of pods that an earlier agent has left cannot be found", zap.Error(err))
			}
		},
		Housekeep: func(known func(types.UID) bool) {
			if h.HasSourced() {
				g.markGone(known)
			}
		},
		Run: func(ctx context.Context) error {
			g.run(ctx, h.Events)
			return nil
		},
	}
}

// markGone marks the cgroups of an earlier agent whose pods are not configured any more. Cgroups that
// this agent has used are released with their pods.
func (g *Groups) markGone(known func(types.UID) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for uid, own := range g.pods.All() {
		if own.have == nil && !known(uid) {
			own.gone = true
			g.wake.Notify()
		}
	}
}

// run writes the cgroups that all pods share, and removes leftovers.
func (g *Groups) run(ctx context.Context, events runtime.EventRecorder) {
	var tried time.Time
	var enforced string
	var written map[v1.PodQOSClass]requests
	for {
		if time.Since(tried) >= refreshInterval {
			tried, written = time.Now(), nil
			enforced = g.enforce(events, enforced)
		}
		if now := g.requested(); !maps.Equal(now, written) {
			written = now
			if err := g.weigh(now); err != nil {
				g.opts.Logger.Warn("the weights of pods cannot be written", zap.Error(err))
			}
		}
		g.removeLeftovers(ctx)
		select {
		case <-g.wake:
		case <-time.After(refreshInterval - time.Since(tried)):
		case <-ctx.Done():
			return
		}
	}
}

// enforce writes the values of the cgroup of all pods, and returns the reason of the event. An event is
// recorded at each failure, and if the reason differs from the reason of the last event.
func (g *Groups) enforce(events runtime.EventRecorder, last string) (reason string) {
	kind, reason, message := v1.EventTypeNormal, eventEnforced, "Updated Node Allocatable limit across pods"
	if err := g.ensure(g.whole, g.opts.Node); err != nil {
		kind, reason, message = v1.EventTypeWarning, eventNotEnforced, "Failed to update Node Allocatable Limits: "+err.Error()
		g.opts.Logger.Warn("the limits of the cgroup of all pods cannot be written yet", zap.Error(err))
	}
	if g.opts.NodeName != "" && (reason != last || reason == eventNotEnforced) {
		events.Event(feature.NodeReference(g.opts.NodeName), kind, reason, message)
	}
	return reason
}

// requested returns the sum of the requests of each class.
func (g *Groups) requested() map[v1.PodQOSClass]requests {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make(map[v1.PodQOSClass]requests, len(g.class)+1)
	for _, own := range g.pods.All() {
		sum := all[own.class]
		all[own.class] = requests{sum.milli + own.asked.milli, sum.memory + own.asked.memory}
	}
	return all
}

// weigh writes the weights of the classes, and the protection of their memory. The cgroup of all
// pods protects the memory of guaranteed and burstable pods, too, because the kernel ignores a
// protection that exceeds the protection of the cgroups above.
func (g *Groups) weigh(asked map[v1.PodQOSClass]requests) error {
	var err error
	for class, path := range g.class {
		err = errors.Join(err, g.ensure(path, forClass(class, asked[class], g.opts.Settings)))
	}
	memory := asked[v1.PodQOSGuaranteed].memory + asked[v1.PodQOSBurstable].memory
	return errors.Join(err, g.ensure(g.whole, Values{MemoryMin: g.opts.Settings.protected(memory)}))
}

// removeLeftovers removes the cgroups that markGone has marked. A cgroup with processes is tried again
// after the next call of markGone.
func (g *Groups) removeLeftovers(ctx context.Context) {
	for _, uid := range g.beginRemoval() {
		g.mu.Lock()
		own := *g.pods.Get(uid)
		g.mu.Unlock()
		err := g.removeLeftover(ctx, uid, own.path)
		g.mu.Lock()
		if left := g.pods.Get(uid); left != nil {
			left.removal, left.gone = nil, false
		}
		g.mu.Unlock()
		close(own.removal)
		if err != nil && !errors.Is(err, ErrBusy) {
			g.opts.Logger.Warn("the cgroup of a pod that an earlier agent has left cannot be removed", zap.String("podUID", string(uid)), zap.Error(err))
		}
	}
}

// beginRemoval returns the marked pods. prepare waits for the end of their removals.
func (g *Groups) beginRemoval() (uids []types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for uid, own := range g.pods.All() {
		if own.gone && own.have == nil {
			own.removal = make(chan struct{})
			uids = append(uids, uid)
		}
	}
	return uids
}

func (g *Groups) removeLeftover(ctx context.Context, uid types.UID, path string) error {
	if path != "" { // the agent may have died between the two steps of writing the record
		defer g.operated("destroy", time.Now())
		if err := g.opts.Writer.Remove(ctx, path); err != nil {
			return err
		}
	}
	return g.forget(uid)
}
