// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	goruntime "runtime"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
)

// maxFileName is the longest name of a file, in bytes.
const maxFileName = 255

// admit decides about the newest version of a pod, and reports whether the pod may run. Otherwise the
// pod is held until the gate's next Reconsider, or refused.
func (a *Agent) admit(pod *v1.Pod) bool {
	waited := a.host.Listing(pod.UID).Entry == feature.Held
	a.host.SetDesired(pod)
	switch r := a.decide(pod); {
	case r.Admitted():
		a.host.SetEntry(pod.UID, feature.Admitted, nil)
		return true
	case r.Wait != "":
		a.host.SetEntry(pod.UID, feature.Held, nil)
		if !waited {
			a.host.Log.Info("pod waits for its admission", feature.PodField(pod), zap.String("for", r.Wait))
		}
	default:
		a.gate.Release(pod.UID)
		a.refuse(pod, r.Reason, r.Message)
	}
	return false
}

// decide returns the decision about a pod. A pod with fields that the node cannot honour is
// refused, unless the pod has ended. The gate decides about all other pods.
func (a *Agent) decide(pod *v1.Pod) feature.AdmitResult {
	if !podfacts.IsTerminal(pod.Status.Phase) {
		if err := a.check(pod); err != nil {
			reason := admission.ReasonUnsupported
			if os := pod.Spec.OS; os != nil && string(os.Name) != goruntime.GOOS {
				reason = admission.ReasonOS // the kubelet's reason: the fields are those of the other system
			}
			return feature.AdmitResult{Reason: reason, Message: err.Error()}
		}
	}
	return a.gate.Admit(pod)
}

// check returns an error with every field of the pod that the runtime, the generator, the hooks or
// a feature cannot honour.
func (a *Agent) check(pod *v1.Pod) error {
	var fields []string
	err := a.host.Manager.CheckPod(pod)
	if unsupported, ok := errors.AsType[*runtime.UnsupportedError](err); ok {
		fields = append(fields, unsupported.Fields...)
	} else if err != nil {
		return err
	}
	for _, f := range a.features {
		if f.Check != nil {
			fields = append(fields, f.Check(pod)...)
		}
	}
	if n := len(pod.Namespace) + len(pod.Name) + len(pod.UID) + 2; n > maxFileName {
		fields = append(fields, fmt.Sprintf("metadata.name (with namespace and UID it is %d bytes long, and the log folder's name may have %d)", n, maxFileName))
	}
	if len(fields) == 0 {
		return nil
	}
	return &runtime.UnsupportedError{Runtime: a.host.Runtime.Name(), Fields: fields}
}
