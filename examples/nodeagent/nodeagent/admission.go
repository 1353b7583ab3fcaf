// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent/admission"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/runtime"
)

// ReasonUnsupported is the status reason of a pod that this node cannot run. Others
// are those of package admission.
const ReasonUnsupported = "UnsupportedPodSpec"

// rejected begins the status message of a pod that was refused, as the kubelet's does.
const rejected = "Pod was rejected: "

// maxFileName is how long the name of a file may be, in bytes.
const maxFileName = 255

// check refuses a pod that could never run here, because the runtime, its generator
// or hooks, or a volume could not be what it asks for. Everything that stands in
// the way is listed at once.
func (a *Agent) check(pod *v1.Pod) error {
	var fields []string
	err := a.manager.CheckPod(pod)
	if unsupported, ok := errors.AsType[*runtime.UnsupportedError](err); ok {
		fields = append(fields, unsupported.Fields...)
	} else if err != nil {
		return err
	}
	fields = append(fields, a.volumes.check(pod)...)
	if n := len(pod.Namespace) + len(pod.Name) + len(pod.UID) + 2; n > maxFileName {
		fields = append(fields, fmt.Sprintf("metadata.name (with namespace and UID it is %d bytes long, and the log folder's name may have %d)", n, maxFileName))
	}
	if len(fields) == 0 {
		return nil
	}
	return &runtime.UnsupportedError{Runtime: a.runtime.Name(), Fields: fields}
}

// reject ends a pod that was refused: it is Failed, as in the kubelet, until its
// manifest changes.
func (a *Agent) reject(pod *v1.Pod, failures []admission.Failure) {
	reason, message := failures[0].Reason, describe(failures)
	a.pods.reject(pod.UID)
	status := a.statuses.get(pod)
	status.Phase = v1.PodFailed
	status.Reason = reason
	status.Message = rejected + message
	a.tellRejection(pod, reason, message)
	a.statuses.set(pod, status)
	a.endUnlessWorked(pod)
}

// reasonAttachLimit is the kubelet's reason for a pod that was sent to a node with as
// many volumes as it takes (1.36).
const reasonAttachLimit = "VolumeAttachmentLimitExceeded"

// rejectLate ends a pod that was admitted before it was known that it cannot run
// here, so that its controller makes another, elsewhere.
func (a *Agent) rejectLate(pod *v1.Pod, reason, message string) {
	if a.workers.IsPodTerminationRequested(pod.UID) {
		return
	}
	a.tellRejection(pod, reason, message)
	err := a.workers.UpdatePod(podworkers.Update{
		Type: podworkers.UpdateKill, Pod: pod, Received: time.Now(),
		Kill: &podworkers.KillOptions{Status: failAs(reason, rejected+message, nil)},
	})
	if err != nil {
		a.log.Error("could not end a pod that is rejected", podField(pod), zap.Error(err))
	}
}

// tellRejection tells everybody who listens, once.
func (a *Agent) tellRejection(pod *v1.Pod, reason, message string) {
	a.opts.Events.Event(reference(pod), v1.EventTypeWarning, reason, message)
	if told := a.opts.Observer.PodRejected; told != nil {
		told(Rejection{Pod: pod, Reason: reason, Message: message})
	}
	a.log.Warn("pod rejected", podField(pod), zap.String("reason", reason), zap.String("message", message))
}

// endUnlessWorked says that nothing is left of a refused pod, which its worker
// does where it has one.
func (a *Agent) endUnlessWorked(pod *v1.Pod) {
	if _, worked := a.workers.Info(pod.UID); !worked {
		a.ended(pod)
	}
}
