// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Request is what the API server is asked to do.
type Request uint8

// What can be asked. RequestNone is nothing.
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
	// merged is what the server is to have after the patch, or has already if there is nothing to ask.
	merged v1.PodStatus
	// version is that of the status that merged is made of.
	version uint64
	// settled: with RequestNone, the server has that version.
	settled bool
	// held: the end of the pod is kept back.
	held bool
}

// facts is what others say of a pod just now.
type facts struct {
	// mayRun: a container of the pod may be running.
	mayRun bool
	// canGet: the API server can be asked what it has.
	canGet bool
}

// next is the step that brings the API server nearer to what the agent says.
func (r *record) next(f facts, now time.Time) (step, error) {
	s := step{ref: r.remote.ref, version: r.version}
	switch {
	case r.status == nil, s.ref.UID == "":
		return s, nil // nothing to say, or nobody yet to say it to
	case r.remote.gone:
		s.settled = true
		return s, nil
	case r.remote.status == nil && f.canGet:
		s.request = RequestGet
		return s, nil
	}
	s.merged, s.held = Merge(MergeInput{
		Pod: r.pod, API: r.remote.status, Ours: r.status, MayRun: f.mayRun, Now: metav1.NewTime(now.Truncate(time.Second)),
	})
	if r.remote.status == nil && s.held {
		return s, nil // it is not known what phase to leave
	}
	patch, err := r.diff(&s.merged)
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

// diff returns the patch to merged; nil if the server has it.
func (r *record) diff(merged *v1.PodStatus) ([]byte, error) {
	switch {
	case r.remote.status == nil:
		return DiffAll(nil, merged, r.remote.ref.UID)
	case r.remote.doubt:
		return DiffAll(r.remote.status.Conditions, merged, r.remote.ref.UID)
	case Equal(r.remote.status, merged):
		return nil, nil
	}
	return Diff(r.remote.status, merged, r.remote.ref.UID)
}

// deletable: the pod is to be deleted, has ended, the server knows that, and nothing of it is left here. Mirror pods are
// deleted by whoever made them.
func (r *record) deletable(f facts) bool {
	return r.finished && r.remote.deleting && !r.remote.deleted && !f.mayRun && !isStatic(r.pod) &&
		r.remote.status != nil && isTerminal(r.remote.status.Phase)
}

// settle takes in that a step has been done: pod is what the server answered.
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

// settleGet takes in what the server has under the name of the pod.
func (r *record) settleGet(s *step, pod *v1.Pod, now time.Time) {
	if pod.UID != s.ref.UID { // replaced by another
		r.lose(now)
		return
	}
	r.observe(pod)
}

// lose takes in that the server does not have the pod. Nobody waits for what it cannot be told.
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

// class is how urgent it is to write what the agent says now.
func (r *record) class() Class {
	if r.status == nil {
		return ClassOther
	}
	theirs := &r.pod.Status // the best guess
	if r.remote.status != nil {
		theirs = r.remote.status
	}
	switch {
	case isTerminal(r.status.Phase) && !isTerminal(theirs.Phase), r.finished && r.remote.deleting:
		return ClassTerminal
	case conditionStatus(r.status.Conditions, v1.PodReady) != conditionStatus(theirs.Conditions, v1.PodReady),
		r.status.Phase == v1.PodRunning && theirs.Phase != v1.PodRunning:
		return ClassReady
	}
	return ClassOther
}
