// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"bytes"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/semantic"
)

// remote is the known state of a pod on the API server. A remote is a value; its pointers are never
// written through.
type remote struct {
	ref PodRef
	// status is the server's status, normalised; nil if unknown.
	status *v1.PodStatus
	// version is the resource version of status.
	version string
	// manifest is the hash of the static pod that a mirror pod shows; "" for other pods.
	manifest string
	// deleting: the pod has a deletion timestamp. A deletion timestamp is never removed.
	deleting bool
	// doubt: a request may have been carried out, and may change the server's status still. In a
	// remote without a ref, the request is of an earlier record of the pod.
	doubt bool
	// gone: the server had no such pod at goneSince.
	gone bool
	// replaced is the UID of the previous mirror pod, which the server has replaced by this mirror
	// pod. A cache may still have the previous mirror pod.
	replaced  types.UID
	goneSince time.Time
	// deleted: the server has accepted the deletion of the pod.
	deleted bool
	// refused are the last patches that the server confirmed but did not store. A server that
	// stores only parts may require several different patches in turn.
	refused [][]byte
}

// maxRefused is the number of remembered refused patches.
const maxRefused = 8

func refOf(pod *v1.Pod) PodRef { return PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID} }

// newer reports whether pod, an object of the API server, is newer than r.
func (r *remote) newer(pod *v1.Pod) bool {
	if r.replaced != "" && r.replaced == pod.UID {
		return false
	}
	switch {
	case r.status == nil || r.gone || r.ref.UID != pod.UID:
		return true
	case r.version == pod.ResourceVersion:
		return false
	}
	if order, err := resourceversion.CompareResourceVersion(r.version, pod.ResourceVersion); err == nil {
		return order < 0
	}
	return r.version != pod.ResourceVersion
}

// after returns r updated with pod. spec is the spec of the pod, or of the static pod of a mirror
// pod.
func (r remote) after(pod *v1.Pod, spec *v1.PodSpec) remote {
	return r.shows(pod, normalized(pod, spec))
}

// settable reports whether a Setter can be used: the status on the server is known, and the server has
// stored each patch.
func (r *remote) settable() bool { return r.status != nil && !r.doubt && len(r.refused) == 0 }

// normalized returns the normalised status of pod, which shares memory with pod.
func normalized(pod *v1.Pod, spec *v1.PodSpec) *v1.PodStatus {
	status := draftOf(&pod.Status)
	Normalize(spec, status)
	return status
}

// shows is like after, with the normalised status of pod as an argument.
func (r remote) shows(pod *v1.Pod, status *v1.PodStatus) remote {
	if r.ref.UID != pod.UID {
		r = remote{replaced: r.replaced, doubt: r.doubt && r.ref.UID == ""}
	}
	if len(r.refused) > 0 && r.status != nil && !Equal(r.status, status) {
		r.refused = nil // another writer is active, so the server may now store a refused patch
	}
	r.ref, r.version, r.status, r.gone = refOf(pod), pod.ResourceVersion, status, false
	r.manifest = pod.Annotations[podfacts.AnnotationMirror]
	r.deleting = r.deleting || pod.DeletionTimestamp != nil
	return r
}

// applied returns r after the server answered a patch with pod.
func (r remote) applied(pod *v1.Pod, spec *v1.PodSpec, s *step) remote {
	if pod == nil { // the Patcher returns no pod
		status := s.merged
		r.status, r.doubt, r.gone = &status, false, false
		return r
	}
	var refused [][]byte
	merged := s.merged // is normalised
	status := &merged
	if !semantic.Equal(status, &pod.Status) {
		status = normalized(pod, spec)
	}
	if status != &merged && !Equal(status, &merged) {
		refused = append(slices.Clone(r.refused[max(0, len(r.refused)-maxRefused+1):]), s.encoded())
	}
	if r.newer(pod) {
		r = r.shows(pod, status)
	}
	r.refused = refused
	r.doubt = false
	return r
}

// refusesEnd reports whether the server did not store the end of the pod in ours.
func (r *remote) refusesEnd(ours *v1.PodStatus) bool {
	return len(r.refused) > 0 && ours != nil && r.status != nil && podfacts.IsTerminal(ours.Phase) && !podfacts.IsTerminal(r.status.Phase)
}

// refuses reports whether patch was tried and is known to change nothing.
func (r *remote) refuses(patch []byte) bool {
	return slices.ContainsFunc(r.refused, func(other []byte) bool { return bytes.Equal(other, patch) })
}
