// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// EventRecorder receives events. client-go's recorder implements it. Calls are made without locks
// and must not block.
type EventRecorder interface {
	Event(object apiruntime.Object, eventType, reason, message string)
}

// Event reasons of this package, in the kubelet's words.
const (
	eventCreated                = "Created"
	eventStarted                = "Started"
	eventFailed                 = "Failed"
	eventKilling                = "Killing"
	eventBackOff                = "BackOff"
	eventSandboxChanged         = "SandboxChanged"
	eventFailedCreatePodSandBox = "FailedCreatePodSandBox"
	eventFailedPostStartHook    = "FailedPostStartHook"
	eventFailedPreStopHook      = "FailedPreStopHook"
	eventLifecycleHTTPFallback  = "LifecycleHTTPFallback"
)

// podEvent sends an event about a pod.
func (m *Manager) podEvent(pod *v1.Pod, eventType, reason, message string) {
	if m.events == nil {
		return
	}
	m.events.Event(podfacts.Reference(pod), eventType, reason, message)
}

// containerEvent sends an event about a container: the object is a reference to the pod, with the
// container in its field path. For a container that is not in the pod no event is sent.
func (m *Manager) containerEvent(pod *v1.Pod, name, eventType, reason, message string) {
	if m.events == nil {
		return
	}
	if object := containerReference(pod, name); object != nil {
		m.events.Event(object, eventType, reason, message)
	}
}

// containerReference returns nil for a container that is not in the pod.
func containerReference(pod *v1.Pod, name string) *v1.ObjectReference {
	ref, ok := Find(pod, name)
	if !ok {
		return nil
	}
	object := podfacts.Reference(pod)
	object.FieldPath = fmt.Sprintf("spec.%s{%s}", ref.Group, name)
	return object
}
