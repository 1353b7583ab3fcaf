// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
)

// Name is the name of the feature.
const Name = "eviction"

// Reasons and messages of events, as in the kubelet.
const (
	eventStarved   = "EvictionThresholdMet"
	eventOverdue   = "ExceededGracePeriod"
	messageOverdue = "Container runtime did not kill the pod within specified grace period."
)

// HostOptions connect a Manager with a node of package node.
type HostOptions struct {
	// NodeName names the Node in events. Required.
	NodeName string
	// Images removes the unused images of the node. Defaults to nil: images stay.
	Images func(context.Context) error
}

// Feature makes the Manager a feature of a node, for node.Options.Features. The feature evicts pods
// with the status and the events of the kubelet, and refuses new pods under pressure. It calls Run.
func (m *Manager) Feature(h *feature.Host, o HostOptions) feature.Feature {
	n := &host{Host: h, opts: o, ending: feature.NewSlot[chan struct{}](h.Table)}
	m.opts.Hooks = n.hooks(m.opts.Hooks)
	return feature.Feature{
		Name: Name,
		Admit: func(pod *v1.Pod) feature.AdmitResult {
			reason, message := m.Refuse(pod)
			return feature.AdmitResult{Reason: reason, Message: message}
		},
		Housekeep: n.housekeep,
		Run:       func(ctx context.Context) error { return m.Run(ctx, n) },
	}
}

// host implements Node.
type host struct {
	*feature.Host
	opts   HostOptions
	ending *feature.Slot[chan struct{}] // of evicted pods that have not ended
}

// hooks adds events to the hooks.
func (n *host) hooks(h Hooks) Hooks {
	starved, overdue := h.Starved, h.Overdue
	h.Starved = func(t pressure.Threshold) {
		n.Events.Event(feature.NodeReference(n.opts.NodeName), v1.EventTypeWarning, eventStarved, "Attempting to reclaim "+string(t.Signal.Resource()))
		if starved != nil {
			starved(t)
		}
	}
	h.Overdue = func(e pressure.Eviction) {
		n.Event(e.Pod, v1.EventTypeWarning, eventOverdue, messageOverdue)
		if overdue != nil {
			overdue(e)
		}
	}
	return h
}

// Active implements Node.
func (n *host) Active() []*v1.Pod { return n.ActivePods() }

// Limited implements Node. Most nodes have no such pod: then no pod is copied.
func (n *host) Limited() []*v1.Pod {
	if !slices.ContainsFunc(n.DesiredPods(), pressure.HasLimits) {
		return nil
	}
	return slices.DeleteFunc(n.ActivePods(), func(pod *v1.Pod) bool { return !pressure.HasLimits(pod) })
}

// Evict implements Node. The event of the pod is recorded with the first call.
func (n *host) Evict(e pressure.Eviction) (done <-chan struct{}) {
	isFirst := false
	n.ending.With(e.Pod.UID, func(c *chan struct{}) {
		if isFirst = *c == nil; isFirst {
			*c = make(chan struct{})
		}
		done = *c
	})
	f := feature.Failure{Reason: pressure.Reason, Message: e.Message, Evict: true, GracePeriodSeconds: e.Grace}
	if e.IsDisruption {
		f.Condition = &v1.PodCondition{
			Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonTerminationByKubelet, Message: e.Message,
			ObservedGeneration: e.Pod.Generation, LastTransitionTime: metav1.NewTime(time.Now()),
		}
	}
	if isFirst {
		n.AnnotatedEvent(e.Pod, e.Annotations, v1.EventTypeWarning, pressure.Reason, e.Message)
	}
	n.Fail(e.Pod, f)
	if n.isOver(e.Pod.UID) { // before the call
		n.tell(e.Pod.UID)
	}
	return done
}

// isOver reports whether the worker has finished with a pod: no container runs, the volumes are
// unmounted, and the pod's objects in the container runtime may be removed.
func (n *host) isOver(uid types.UID) bool {
	info, works := n.Workers.Info(uid)
	return !works || info.Finished
}

// housekeep reports the end of evicted pods. The node keeps house after the end of each pod.
func (n *host) housekeep(func(types.UID) bool) {
	for uid := range n.ending.All() {
		if n.isOver(uid) {
			n.tell(uid)
		}
	}
}

// tell reports the end of an evicted pod.
func (n *host) tell(uid types.UID) {
	if done := n.ending.Drop(uid); done != nil {
		close(done)
	}
}

// Reclaim implements Node.
func (n *host) Reclaim(ctx context.Context, step pressure.Reclaim) error {
	if step == pressure.ReclaimContainers {
		return n.Sync.FreeDisk(ctx)
	}
	if n.opts.Images == nil {
		return nil
	}
	return n.opts.Images(ctx)
}
