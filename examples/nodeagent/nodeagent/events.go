// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/runtime"
)

// logEvents writes events as structured log lines.
type logEvents struct{ log *zap.Logger }

// Event fits runtime.EventRecorder.
func (e logEvents) Event(object apiruntime.Object, eventType, reason, message string) {
	ref, ok := object.(*v1.ObjectReference)
	if !ok {
		return
	}
	about := zap.String("pod", ref.Namespace+"/"+ref.Name)
	if ref.Kind == "Node" {
		about = zap.String("node", ref.Name)
	}
	e.log.Info("event",
		about,
		zap.String("field", ref.FieldPath),
		zap.String("type", eventType),
		zap.String("reason", reason),
		zap.String("message", message))
}

// bothEvents tells two recorders.
type bothEvents [2]runtime.EventRecorder

// Event fits runtime.EventRecorder.
func (b bothEvents) Event(object apiruntime.Object, eventType, reason, message string) {
	for _, recorder := range b {
		recorder.Event(object, eventType, reason, message)
	}
}

// nodeReference is the object of events about the node. Its UID is its name, as the
// kubelet's is: kubectl looks for that.
func nodeReference(name string) *v1.ObjectReference {
	return &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
}

// reference is the object of events about a pod.
func reference(pod *v1.Pod) *v1.ObjectReference {
	return &v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
}
