// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent/admission"
	"github.com/keelson-dev/keelson/runtime"
)

// Event reasons of resizes in place, with the kubelet's words (1.36). That one
// waits is ResizeDeferred or ResizeInfeasible.
const (
	eventResize          = "Resize" // before the reason why it waits
	eventResizeStarted   = "ResizeStarted"
	eventResizeCompleted = "ResizeCompleted"
	eventResizeError     = "ResizeError"
)

// resizeStarted says that a pod is given other resources, and remembers it until
// its containers have them.
func (s *syncer) resizeStarted(pod *v1.Pod) {
	s.mu.Lock()
	s.mu.granted[pod.UID] = pod
	if _, failing := s.mu.resizing[pod.UID]; failing {
		s.mu.resizing[pod.UID] = runtime.Resizing{UnderWay: true} // what was in the way of another
	}
	s.mu.Unlock()
	s.agent.opts.Events.Event(reference(pod), v1.EventTypeNormal, eventResizeStarted, resizeText("Pod resize started", pod, ""))
}

// noteResize remembers how far a resize in place has come, and says each thing
// about it once: how it fails, and that it is done.
func (s *syncer) noteResize(ctx context.Context, pod *v1.Pod, result *runtime.Result) {
	s.mu.Lock()
	before := s.mu.resizing[pod.UID]
	now, granted := before, s.mu.granted[pod.UID]
	now.Apply(*result)
	if now.UnderWay {
		s.mu.resizing[pod.UID] = now
	} else {
		delete(s.mu.resizing, pod.UID)
	}
	done := granted != nil || before.UnderWay || resized(result)
	switch {
	case now.UnderWay, ctx.Err() != nil, len(result.Plans) == 0 && result.Err() != nil, killFailed(result):
		done = false
	case granted != nil && !admission.SameResources(granted, pod): // the sync began before that was granted
		done = false
	}
	if done {
		delete(s.mu.granted, pod.UID)
	}
	s.mu.Unlock()
	switch tell := s.agent.opts.Events.Event; {
	case done:
		tell(reference(pod), v1.EventTypeNormal, eventResizeCompleted, resizeText("Pod resize completed", pod, ""))
	case now.Error != "" && before.Error == "": // how it fails the second time is in the status
		tell(reference(pod), v1.EventTypeWarning, eventResizeError, resizeText("Pod resize error", pod, now.Error))
	}
}

// resized reports whether a sync has changed what containers have: the rest of a
// resize that an agent before this one began.
func resized(result *runtime.Result) bool {
	for i := range result.Steps {
		if result.Steps[i].Action == runtime.ResizePodInPlace && result.Steps[i].Err == nil {
			return true
		}
	}
	return false
}

// killFailed reports whether a container that is resized by a restart may still
// run with what it had.
func killFailed(result *runtime.Result) bool {
	for i := range result.Steps {
		if result.Steps[i].Action == runtime.KillContainer && result.Steps[i].Err != nil {
			return true
		}
	}
	return false
}

func (s *syncer) resizing(uid types.UID) runtime.Resizing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.resizing[uid]
}

// resizeText is the kubelet's form of these messages (1.36): what the pod is
// given, in JSON, and what is in its way.
func resizeText(what string, pod *v1.Pod, trouble string) string {
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
