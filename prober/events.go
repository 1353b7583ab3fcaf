// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// Event reasons of this package, with the kubelet's words.
const (
	eventUnhealthy    = "Unhealthy"
	eventProbeWarning = "ProbeWarning"
)

// event holds the arguments of EventRecorder.Event except the object.
type event struct{ eventType, reason, message string }

// eventOf returns the event of an attempt, with the kubelet's words (1.36). A failure, warning or
// error has an event if the previous attempt had another verdict, or if the attempt published a
// failure.
func eventOf(a Attempt) (event, bool) {
	if a.Repeated && !a.Published {
		return event{}, false
	}
	e := event{eventType: v1.EventTypeWarning, reason: eventUnhealthy}
	switch a.Verdict {
	case VerdictFailure:
		e.message = fmt.Sprintf("%s probe failed: %s", a.Target.Type, a.Output)
	case VerdictWarning:
		if a.Repeated {
			return event{}, false
		}
		e.reason = eventProbeWarning
		e.message = fmt.Sprintf("%s probe warning: %s", a.Target.Type, a.Output)
	case VerdictNone:
		e.message = fmt.Sprintf("%s probe errored and resulted in %s state: %s",
			a.Target.Type, a.Verdict, LimitOutput(a.Err.Error()))
	default:
		return event{}, false
	}
	return e, true
}

// reference names a container of a pod.
func reference(t Target) *v1.ObjectReference {
	group := "containers"
	if _, where := find(t.Pod, t.Container.Name); where == placeSidecar {
		group = "initContainers"
	}
	about := podfacts.Reference(t.Pod)
	about.FieldPath = fmt.Sprintf("spec.%s{%s}", group, t.Container.Name)
	return about
}
