// SPDX-License-Identifier: Apache-2.0

package feature

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

// Host gives features access to the node: the table of pods and the parts that all features share.
// A feature's constructor receives the Host. Manager, Sync and Workers are nil until all features
// have been constructed.
type Host struct {
	*Table
	// Root is the absolute path of the node's root folder.
	Root    string
	Runtime runtime.Runtime
	Manager *runtime.Manager
	Sync    *podsync.Pods
	Workers *podworkers.Workers
	Events  runtime.EventRecorder
	// Jitter returns a random duration between d and 1.5 d.
	Jitter func(d time.Duration) time.Duration
	Log    *zap.Logger
	// Sourced is closed when every configuration source has delivered its first pods.
	Sourced chan struct{}
	// CheckPod returns an error with every field of the pod that the node cannot honour. The function
	// works after all features have been constructed.
	CheckPod func(pod *v1.Pod) error
	// HoldImages keeps the images of the references from garbage collection until release. A feature
	// that pulls images calls HoldImages before the pulls, and release after the last use.
	HoldImages func(ctx context.Context, references ...string) (release func(), err error)
	// KeptImages returns the results of Feature.Images of all features.
	KeptImages func() []string
	// Reconsider lets the gate decide again about the pods that wait for their admission. Reconsider
	// does not wait for the decisions.
	Reconsider func()
	// Refused, if not nil, is called for every refused pod.
	Refused func(Refusal)
}

// Status returns the last status of a pod. The status of a refused pod without a terminal phase is the
// status of the refusal. For other pods, Status returns the last published status or, before the first
// publication, the status that the source delivered.
func (h *Host) Status(pod *v1.Pod) v1.PodStatus {
	listing := h.Listing(pod.UID)
	status := h.Sync.Status(cmp.Or(listing.Desired, pod))
	if listing.Refusal != nil && !podfacts.IsTerminal(status.Phase) {
		return *listing.Refusal
	}
	return status
}

// Told reports whether the API server has the terminal phase of a pod. If so, no later agent runs the
// pod again, even without the containers of the pod in the container runtime. The result is false for
// static pods, whose source has no status.
func (h *Host) Told(uid types.UID) bool {
	pod, wanted := h.Desired(uid)
	return wanted && !podconfig.IsStatic(pod) && podfacts.IsTerminal(pod.Status.Phase)
}

// Pods returns every pod that the node knows, with its live status, sorted by namespace, name and
// UID. The caller must not write to the pods: they are shared.
func (h *Host) Pods() []*v1.Pod {
	desired, worked := h.DesiredPods(), h.Sync.All()
	byUID := make(map[types.UID]*v1.Pod, len(worked))
	for _, pod := range worked {
		byUID[pod.UID] = pod
	}
	all := make([]*v1.Pod, 0, len(desired))
	for _, pod := range desired {
		shallow := *cmp.Or(byUID[pod.UID], pod) // the worker's version has the granted resources
		shallow.Status = h.Status(pod)
		all = append(all, &shallow)
		delete(byUID, pod.UID)
	}
	all = slices.AppendSeq(all, maps.Values(byUID))
	slices.SortFunc(all, compare)
	return all
}

// ActivePods returns the pods of Pods that were admitted and have not ended.
func (h *Host) ActivePods() (active []*v1.Pod) {
	for _, pod := range h.Pods() {
		if h.MayRun(pod.UID) && !podfacts.IsTerminal(pod.Status.Phase) && !h.Workers.IsPodKnownTerminated(pod.UID) {
			active = append(active, pod)
		}
	}
	return active
}

// HasSourced reports whether every configuration source has delivered its first pods.
func (h *Host) HasSourced() bool {
	select {
	case <-h.Sourced:
		return true
	default:
		return false
	}
}

// Event records an event about a pod.
func (h *Host) Event(pod *v1.Pod, eventType, reason, message string) {
	h.Events.Event(Reference(pod), eventType, reason, message)
}

// RefusedPrefix starts the status message of a refused pod. The kubelet uses the same prefix.
const RefusedPrefix = "Pod was rejected: "

// Refusal describes a refused pod.
type Refusal struct {
	Pod     *v1.Pod // shared, read-only
	Reason  string  // one word, as in the pod's status
	Message string  // lists every obstacle
}

// TellRefusal reports a refusal as an event, as a log line and to h.Refused.
func (h *Host) TellRefusal(pod *v1.Pod, reason, message string) {
	h.Event(pod, v1.EventTypeWarning, reason, message)
	if h.Refused != nil {
		h.Refused(Refusal{Pod: pod, Reason: reason, Message: message})
	}
	h.Log.Warn("pod rejected", PodField(pod), zap.String("reason", reason), zap.String("message", message))
}

// Fail terminates a pod now and makes its phase Failed, or with f.ByExit the phase that follows from
// the exit codes. If the pod reaches a terminal phase first, the phase stays.
func (h *Host) Fail(pod *v1.Pod, f Failure) {
	err := h.Workers.UpdatePod(podworkers.Update{
		Type: podworkers.UpdateKill, Pod: pod, Received: time.Now(),
		Kill: &podworkers.KillOptions{Evict: f.Evict, GracePeriodSeconds: f.GracePeriodSeconds, Status: f.apply},
	})
	if err != nil {
		h.Log.Error("could not end a pod", PodField(pod), zap.String("for", f.Reason), zap.Error(err))
	}
}

// apply makes the status Failed, with the reason, unless the pod has ended for another reason. With
// ByExit the exit codes decide about the phase, and a Failed pod gets the reason. A pod that was
// Failed without the condition had failed before Host.Fail, and is not changed. apply is
// idempotent.
func (f Failure) apply(status *v1.PodStatus) {
	over := podfacts.IsTerminal(status.Phase)
	has := f.Condition != nil && slices.ContainsFunc(status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == f.Condition.Type && c.Status == f.Condition.Status
	})
	own := status.Reason == f.Reason || f.ByExit && has && status.Reason == "" && status.Phase == v1.PodFailed
	if over && !own {
		return
	}
	if over || !f.ByExit {
		status.Phase, status.Reason, status.Message = v1.PodFailed, f.Reason, f.Message
	}
	if f.Condition != nil && !has {
		status.Conditions = append(status.Conditions, *f.Condition)
	}
}

// PodField returns the log field that names a pod as "namespace/name".
func PodField(pod *v1.Pod) zap.Field {
	return zap.String("pod", pod.Namespace+"/"+pod.Name)
}

// Reference returns the object reference used in events about a pod.
func Reference(pod *v1.Pod) *v1.ObjectReference {
	return podfacts.Reference(pod)
}

// NodeReference returns the object reference used in events about the node. The UID is the node's
// name, as in the kubelet's events. kubectl selects events by this UID.
func NodeReference(name string) *v1.ObjectReference {
	return &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
}
