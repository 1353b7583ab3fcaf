// SPDX-License-Identifier: Apache-2.0

// Package resize reports the progress of in-place resizes in pod statuses and events. The gate
// grants resizes, and package runtime carries them out.
package resize

import (
	"context"
	"encoding/json"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podstatus"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

// Event reasons of the kubelet (1.36) for in-place resizes.
const (
	eventPending   = "Resize" // followed by the reason
	eventStarted   = "ResizeStarted"
	eventCompleted = "ResizeCompleted"
	eventError     = "ResizeError"
)

// Resizes tracks in-place resizes from their grant to their completion.
type Resizes struct {
	host *feature.Host
	kept *feature.Slot[state]
}

// state is the progress of a pod's resize.
type state struct {
	underWay runtime.Resizing
	granted  *v1.Pod // the pod as granted, until its containers have the new resources
}

// New returns a Resizes without any resize.
func New(h *feature.Host) *Resizes {
	return &Resizes{host: h, kept: feature.NewSlot[state](h.Table)}
}

// Feature returns the functions that Resizes adds to the node.
func (s *Resizes) Feature() feature.Feature {
	return feature.Feature{Name: "resize", Hook: podsync.Hook{
		Input:  s.input,
		Synced: s.synced,
		Release: func(_ context.Context, pod *v1.Pod) error {
			s.kept.Drop(pod.UID)
			return nil
		},
	}}
}

// input fits podsync.Hook. A resize is in progress from the moment at which the gate grants it: the status of the pod with
// the new spec lists resources that the containers do not have yet. A pod without any container has no resize in progress.
func (s *Resizes) input(pod *v1.Pod, in *podstatus.Input) {
	if in.Observed == nil || len(in.Observed.Containers) == 0 {
		return
	}
	k := s.kept.Get(pod.UID)
	in.Resizing = k.underWay
	if k.granted != nil && in.Stage == podstatus.StageSync {
		in.Resizing.UnderWay = true
	}
}

// Decided receives a decision of the gate about a pod's new resources. pending is nil if the gate has
// granted them: the event ResizeStarted follows. Otherwise the event has the reason of pending.
func (s *Resizes) Decided(pod *v1.Pod, pending *admission.Pending) {
	if pending != nil {
		s.host.Event(pod, v1.EventTypeWarning, eventPending+pending.Reason, text("Pod resize "+pending.Reason, pod, pending.Message))
		return
	}
	s.kept.With(pod.UID, func(k *state) {
		k.granted = pod
		if k.underWay.UnderWay {
			k.underWay = runtime.Resizing{UnderWay: true} // an error of an earlier resize is obsolete
		}
	})
	s.host.Event(pod, v1.EventTypeNormal, eventStarted, text("Pod resize started", pod, ""))
}

// synced updates the progress of a resize after a sync. It emits an event at the first error and at
// the completion.
func (s *Resizes) synced(ctx context.Context, pod *v1.Pod, result *runtime.Result) {
	var before, now runtime.Resizing
	var done bool
	s.kept.With(pod.UID, func(k *state) {
		before = k.underWay
		now = before
		now.Apply(*result)
		done = k.granted != nil || before.UnderWay || resized(result)
		switch {
		case now.UnderWay, ctx.Err() != nil, len(result.Plans) == 0 && result.Err() != nil, killFailed(result):
			done = false
		case k.granted != nil && !admission.SameResources(k.granted, pod): // the sync began before the grant
			done = false
		}
		k.underWay = runtime.Resizing{}
		if now.UnderWay {
			k.underWay = now
		}
		if done {
			k.granted = nil
		}
	})
	switch {
	case done:
		s.host.Event(pod, v1.EventTypeNormal, eventCompleted, text("Pod resize completed", pod, ""))
	case now.Error != "" && before.Error == "": // later errors are only in the status
		s.host.Event(pod, v1.EventTypeWarning, eventError, text("Pod resize error", pod, now.Error))
	}
}

// resized reports whether the sync has changed resources of running containers. Without a grant by
// this agent, the sync has completed a resize of an earlier agent.
func resized(result *runtime.Result) bool {
	return slices.ContainsFunc(result.Steps, func(s runtime.Step) bool { return s.Action == runtime.ResizePodInPlace && s.Err == nil })
}

// killFailed reports whether stopping a container failed. The container may still run with the old
// resources.
func killFailed(result *runtime.Result) bool {
	return slices.ContainsFunc(result.Steps, func(s runtime.Step) bool { return s.Action == runtime.KillContainer && s.Err != nil })
}

// text returns an event message in the kubelet's form (1.36): the text what, followed by JSON with the
// pod's resources and an optional error.
func text(what string, pod *v1.Pod, trouble string) string {
	type container struct {
		Name      string                  `json:"name"`
		Resources v1.ResourceRequirements `json:"resources"`
	}
	of := func(list []v1.Container) (out []container) {
		for i := range list {
			out = append(out, container{list[i].Name, list[i].Resources})
		}
		return out
	}
	text, err := json.Marshal(struct {
		Init       []container `json:"initContainers,omitempty"`
		Containers []container `json:"containers,omitempty"`
		Generation int64       `json:"generation"`
		Error      string      `json:"error,omitempty"`
	}{of(pod.Spec.InitContainers), of(pod.Spec.Containers), pod.Generation, trouble})
	if err != nil {
		return what
	}
	return what + ": " + string(text)
}
