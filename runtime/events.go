// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
)

// EventRecorder receives events. client-go's recorder fits as it is. It is
// called without locks held and must not block.
type EventRecorder interface {
	Event(object apiruntime.Object, eventType, reason, message string)
}

// Event reasons of this package, with the kubelet's words.
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

// podEvent reports about the pod as a whole.
func (m *Manager) podEvent(pod *v1.Pod, eventType, reason, message string) {
	if m.events == nil {
		return
	}
	m.events.Event(objectReference(pod), eventType, reason, message)
}

// containerEvent reports about one container: the object is a reference to the
// pod whose field path names the container. A container that is not in the pod
// gets no event.
func (m *Manager) containerEvent(pod *v1.Pod, name, eventType, reason, message string) {
	if m.events == nil {
		return
	}
	if object := containerReference(pod, name); object != nil {
		m.events.Event(object, eventType, reason, message)
	}
}

// containerReference is nil for a container that is not in the pod.
func containerReference(pod *v1.Pod, name string) *v1.ObjectReference {
	ref, ok := Find(pod, name)
	if !ok {
		return nil
	}
	object := objectReference(pod)
	object.FieldPath = fmt.Sprintf("spec.%s{%s}", ref.Group, name)
	return object
}

func objectReference(pod *v1.Pod) *v1.ObjectReference {
	return &v1.ObjectReference{
		APIVersion:      "v1",
		Kind:            "Pod",
		Namespace:       pod.Namespace,
		Name:            pod.Name,
		UID:             pod.UID,
		ResourceVersion: pod.ResourceVersion,
	}
}
