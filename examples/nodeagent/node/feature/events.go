// SPDX-License-Identifier: Apache-2.0

package feature

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/runtime"
)

// AnnotatedEvents is an optional ability of Host.Events: events with annotations. client-go's
// record.EventRecorder has it.
type AnnotatedEvents interface {
	AnnotatedEventf(object apiruntime.Object, annotations map[string]string, eventType, reason, format string, args ...any)
}

// AnnotatedEvent records an event about a pod, with annotations if the node's recorder can annotate.
func (h *Host) AnnotatedEvent(pod *v1.Pod, annotations map[string]string, eventType, reason, message string) {
	if a, ok := h.Events.(AnnotatedEvents); ok && len(annotations) > 0 {
		a.AnnotatedEventf(Reference(pod), annotations, eventType, reason, "%s", message)
		return
	}
	h.Event(pod, eventType, reason, message)
}

// BothEvents passes every event to two recorders.
type BothEvents [2]runtime.EventRecorder

// Event implements runtime.EventRecorder.
func (b BothEvents) Event(object apiruntime.Object, eventType, reason, message string) {
	for _, recorder := range b {
		recorder.Event(object, eventType, reason, message)
	}
}

// AnnotatedEventf implements AnnotatedEvents. A recorder without the method gets the event without
// the annotations.
func (b BothEvents) AnnotatedEventf(object apiruntime.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	for _, recorder := range b {
		if a, ok := recorder.(AnnotatedEvents); ok {
			a.AnnotatedEventf(object, annotations, eventType, reason, format, args...)
		} else {
			recorder.Event(object, eventType, reason, fmt.Sprintf(format, args...))
		}
	}
}
