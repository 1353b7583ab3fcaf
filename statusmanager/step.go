// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// Request is a kind of request to the API server.
type Request uint8

// The kinds of requests. RequestNone is no request.
const (
	RequestNone Request = iota
	RequestGet
	RequestPatch
	RequestDelete
)

func (r Request) String() string {
	switch r {
	case RequestGet:
		return "get"
	case RequestPatch:
		return "patch"
	case RequestDelete:
		return "delete"
	}
	return "none"
}

// step is the next thing to do for a pod.
type step struct {
	request Request
	ref     PodRef
	patch   []byte
	// set replaces patch, which is nil, for a Setter.
	set *Patch
	// merged is the server's status after the patch, or its present status if no request is
	// necessary.
	merged v1.PodStatus
	// version is the version of the status in merged. said is the last version set by the caller,
	// up to version.
	version, said uint64
	// settled: with RequestNone, the server has the version.
	settled bool
	// held: the end of the pod is kept back.
	held bool
}

// facts are the present answers of the seams about a pod.
type facts struct {
	// mayRun: a container of the pod may be running.
	mayRun bool
	// canGet: a Getter is available. canSet: a Setter.
	canGet, canSet bool
}

// next returns the next step to bring the server to the agent's status.
func (r *record) next(f facts, now time.Time) (step, error) {
	s := step{ref: r.remote.ref, version: r.version, said: r.said}
	switch {
	case r.status == nil, s.ref.UID == "":
		return s, nil // no status yet, or no known pod on the server
	case r.remote.gone:
		s.settled = true
		return s, nil
	case r.remote.status == nil && f.canGet:
		s.request = RequestGet
		return s, nil
	case r.awaitsMirror():
		return s, nil
	}
	s.merged, s.held = merge(mergeInput{
		Pod: r.pod, API: r.remote.status, Ours: r.status, MayRun: f.mayRun, Now: metav1.NewTime(now.Truncate(time.Second)),
	})
	if r.remote.status == nil && s.held {
		return s, nil // the phase to keep is unknown
	}
	if f.canSet && r.remote.settable() {
		r.setOrDelete(f, &s)
		return s, nil
	}
	patch, err := r.diff(&s.merged, s.held)
	switch {
	case err != nil:
		return s, err
	case patch != nil && !r.remote.refuses(patch):
		s.request, s.patch = RequestPatch, patch
	case r.deletable(f):
		s.request = RequestDelete
	default:
		s.settled = !s.held
	}
	return s, nil
}

// setOrDelete completes a step for a Setter.
func (r *record) setOrDelete(f facts, s *step) {
	from, merged, uid := r.remote.status, s.merged, r.remote.ref.UID
	switch {
	case !Equal(from, &merged):
		s.request = RequestPatch
		s.set = &Patch{Version: r.remote.version, Status: &merged, Encode: func() ([]byte, error) { return diff(from, &merged, uid) }}
	case r.deletable(f):
		s.request = RequestDelete
	default:
		s.settled = !s.held
	}
}

// encoded returns the text of the patch of s.
func (s *step) encoded() []byte {
	if s.set == nil {
		return s.patch
	}
	text, err := s.set.Encode()
	if err != nil {
		return nil // the server has stored the same status, and so the error is impossible
	}
	return text
}

// diff returns the patch to merged, or nil if the server has merged.
func (r *record) diff(merged *v1.PodStatus, held bool) ([]byte, error) {
	switch {
	case r.remote.status == nil:
		return diffAll(nil, merged, held, r.remote.ref.UID)
	case r.remote.doubt:
		return diffAll(r.remote.status.Conditions, merged, held, r.remote.ref.UID)
	case Equal(r.remote.status, merged):
		return nil, nil
	}
	return diff(r.remote.status, merged, r.remote.ref.UID)
}

// deletable reports whether the pod can be deleted: it has a deletion timestamp and has ended, the
// server has its final status, and no container or resource is left on the node. Mirror pods are
// deleted by their creator.
func (r *record) deletable(f facts) bool {
	return r.finished && r.remote.deleting && !r.remote.deleted && !f.mayRun && !podfacts.IsStatic(r.pod) &&
		r.remote.status != nil && podfacts.IsTerminal(r.remote.status.Phase)
}

// done reports whether the last patch has left nothing to send.
func (r *record) done() bool {
	return !r.dirty() && !r.held && len(r.remote.refused) == 0 && !r.awaitsDelete()
}

// awaitsDelete reports whether the pod has ended and is to be deleted, and the server has not
// accepted the deletion yet.
func (r *record) awaitsDelete() bool { return r.finished && r.remote.deleting && !r.remote.deleted }

// settle records a finished step; pod is the server's answer.
func (r *record) settle(s *step, pod *v1.Pod, now time.Time) {
	switch s.request {
	case RequestGet:
		r.settleGet(s, pod, now)
	case RequestPatch:
		r.remote = r.remote.applied(pod, r.spec(pod), s)
		r.held = s.held
		if !s.held {
			r.ack(s.version)
		}
	case RequestDelete:
		r.remote.deleted = true
	case RequestNone:
		r.held = s.held
		if s.settled {
			r.ack(s.version)
		}
	}
}

// settleGet records the answer of a GET.
func (r *record) settleGet(s *step, pod *v1.Pod, now time.Time) {
	switch {
	case pod.UID == s.ref.UID:
		r.observe(pod)
	case podfacts.IsStatic(r.pod) && podfacts.IsMirror(pod) && pod.Spec.NodeName == r.pod.Spec.NodeName:
		r.observe(pod)
		r.remote.replaced = s.ref.UID
	default: // replaced by the pod of another owner
		r.lose(now)
	}
}

// lose records that the server does not have the pod. Waiting callers are released, because the
// status cannot be written.
func (r *record) lose(now time.Time) {
	r.remote.gone, r.remote.goneSince = true, now
	r.held = false
	r.ack(r.version)
}

func (r *record) ack(version uint64) {
	if version <= r.acked {
		return
	}
	r.acked = version
	if r.version > version {
		r.changed = r.following
	}
}

// class returns the urgency of writing the present status.
func (r *record) class() Class {
	if r.status == nil {
		return ClassOther
	}
	theirs := &r.pod.Status // the best guess
	if r.remote.status != nil {
		theirs = r.remote.status
	}
	switch {
	case podfacts.IsTerminal(r.status.Phase) && !podfacts.IsTerminal(theirs.Phase), r.finished && r.remote.deleting:
		return ClassTerminal
	case conditionStatus(r.status.Conditions, v1.PodReady) != conditionStatus(theirs.Conditions, v1.PodReady),
		r.status.Phase == v1.PodRunning && theirs.Phase != v1.PodRunning:
		return ClassReady
	}
	return ClassOther
}
