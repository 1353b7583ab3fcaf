// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"go.uber.org/zap"
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

// AnnotatedEventf fits client-go's record.EventRecorder. The annotations are left out.
func (e logEvents) AnnotatedEventf(object apiruntime.Object, _ map[string]string, eventType, reason, format string, args ...any) {
	e.Event(object, eventType, reason, fmt.Sprintf(format, args...))
}
