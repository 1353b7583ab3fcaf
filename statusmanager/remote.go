// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"bytes"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// remote is what is known of a pod on the API server. It is a value: what it points to is never written to.
type remote struct {
	ref PodRef
	// status is what the server has, normalised; nil if nobody knows.
	status *v1.PodStatus
	// version is the resource version of status.
	version string
	// deleting: the pod has a deletion timestamp. It never loses it.
	deleting bool
	// doubt: a request may have been carried out, and may change the server's status still.
	doubt bool
	// gone: the server has no such pod, as was found out at goneSince.
	gone      bool
	goneSince time.Time
	// deleted: the server was told to delete the pod, and said yes.
	deleted bool
	// refused is a patch after which the server showed something else, as it would again.
	refused []byte
}

func refOf(pod *v1.Pod) PodRef { return PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID} }

// newer reports whether pod, an object of the API server, tells more than r.
func (r *remote) newer(pod *v1.Pod) bool {
	if r.status == nil || r.gone || r.ref.UID != pod.UID {
		return true
	}
	if order, err := resourceversion.CompareResourceVersion(r.version, pod.ResourceVersion); err == nil {
		return order < 0
	}
	return r.version != pod.ResourceVersion
}

// after returns r with what pod tells. spec is that of the pod, or of the static pod it stands for.
func (r remote) after(pod *v1.Pod, spec *v1.PodSpec) remote {
	if r.ref.UID != pod.UID {
		r = remote{}
	}
	status := pod.Status.DeepCopy()
	Normalize(spec, status)
	r.ref, r.version, r.status, r.gone = refOf(pod), pod.ResourceVersion, status, false
	r.deleting = r.deleting || pod.DeletionTimestamp != nil
	return r
}

// applied returns r after the server answered a patch with pod.
func (r remote) applied(pod *v1.Pod, spec *v1.PodSpec, s *step) remote {
	if pod == nil { // a Patcher that cannot tell
		status := s.merged
		r.status, r.doubt, r.gone = &status, false, false
		return r
	}
	response := remote{}.after(pod, spec)
	if Equal(response.status, &s.merged) {
		r.refused = nil
	} else {
		r.refused = s.patch
	}
	if r.newer(pod) {
		r = r.after(pod, spec)
	}
	r.doubt = false
	return r
}

// refuses reports whether patch was tried and is known to change nothing.
func (r *remote) refuses(patch []byte) bool { return r.refused != nil && bytes.Equal(r.refused, patch) }
