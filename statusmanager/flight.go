// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// errOverdue is the cause of a cancelled overdue request. The pod's next request gets the whole
// RequestTimeout.
var errOverdue = errors.New("statusmanager: other pods need the worker of a request without an answer")

// Errors for wrong answers of a Patcher that returned no error.
var (
	errNoPod      = errors.New("statusmanager: the answer of the API server holds no pod")
	errAnotherPod = errors.New("statusmanager: the API server answered with another pod")
)

// RequestEvent describes a finished request to the API server.
type RequestEvent struct {
	// Pod is the pod on the API server, and UID the UID of the pod on the node. The UIDs differ for
	// static pods.
	Pod PodRef
	UID types.UID
	// Request is the kind of the request, and Class its urgency.
	Request Request
	Class   Class
	// Bytes is the size of the patch, 0 for a Setter.
	Bytes int
	// Failures is the number of consecutive failed requests for the pod before the request.
	Failures int
	// Started is when the request was made, and Took its duration.
	Started time.Time
	Took    time.Duration
	// Latency, for a successful patch, is the time since the oldest change in the patch was
	// accepted, as in the kubelet's pod_status_sync_duration_seconds.
	Latency time.Duration
	// Err is the error of the request, or nil.
	Err error
	// Refused: the server confirmed the patch but stored another status. The patch is not sent
	// again.
	Refused bool
}

// maxSteps is the maximum number of requests in a turn: get and patch, both again after a conflict,
// and delete.
const maxSteps = 5

// fly makes one turn for an entry made busy by take.
func (m *Manager) fly(ctx context.Context, e *entry) {
	m.lookUp(e)
	patched := false
	for range maxSteps {
		m.mu.Lock()
		r, epoch, removed := e.record, e.epoch, e.removed
		m.mu.Unlock()
		if removed {
			break
		}
		s, err := r.next(m.facts(e.uid, &r), time.Now())
		if s.request == RequestPatch && patched || s.request != RequestNone && !m.admits(e) {
			m.again(e) // other pods may be more urgent than a second status, and a request may have to wait
			break
		}
		patched = patched || s.request == RequestPatch
		goOn := m.do(ctx, e, epoch, &s, err)
		m.follow(e)
		if !goOn {
			break
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.land(e)
}

// admits begins a request of e, if the budget permits a request now.
func (m *Manager) admits(e *entry) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if e.budget.due().After(now) {
		return false
	}
	e.budget.began(now)
	return true
}

func (m *Manager) again(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.again = true
}

// land ends the turn of e. The lock is held.
func (m *Manager) land(e *entry) {
	e.busy = false
	m.mu.lanes.landed(e.ticket.lane)
	switch {
	case e.removed:
		delete(m.mu.entries, e.uid)
	case e.again || e.failures > 0:
		m.schedule(e)
	}
	m.wake.Notify()
}

// do makes one step, and reports whether another step may follow in the same turn. failed is the
// error of computing the step.
func (m *Manager) do(ctx context.Context, e *entry, epoch uint64, s *step, failed error) (goOn bool) {
	m.mu.Lock()
	ev := RequestEvent{
		Pod: s.ref, UID: e.uid, Request: s.request, Class: e.class(), Bytes: len(s.patch), Failures: e.failures,
		Started: time.Now(), Err: failed,
	}
	e.sent = s.version
	m.mu.Unlock()
	var pod *v1.Pod
	if s.request != RequestNone {
		pod, ev.Err = m.patiently(ctx, e, s)
	}
	ev.Took = time.Since(ev.Started)
	if ctx.Err() != nil && ev.Err != nil {
		return false // nothing is known, and nothing will be done
	}
	m.mu.Lock()
	if e.epoch == epoch {
		if s.request != RequestNone {
			e.pace = paceOf(ev.Took, m.patience())
		}
		goOn = m.settle(e, s, pod, &ev, failed != nil)
	}
	m.mu.Unlock()
	m.report(&ev)
	return goOn
}

// patience is the time until a request is overdue.
func (m *Manager) patience() time.Duration { return RequestTimeout / patienceShare }

// patiently does request. Once overdue, the request counts as a request of a troubled pod, or is
// cancelled if troubled pods already use their share of the workers.
func (m *Manager) patiently(ctx context.Context, e *entry, s *step) (*v1.Pod, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	timer := time.AfterFunc(m.patience(), func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if ctx.Err() == nil && !m.mu.lanes.overdue(&e.ticket) {
			giveUp(errOverdue)
		}
	})
	defer timer.Stop()
	pod, err := m.request(ctx, s)
	if err != nil && context.Cause(ctx) == errOverdue {
		err = fmt.Errorf("%w after %s: %w", errOverdue, m.patience(), err)
	}
	return pod, err
}

// request asks the API server. An answer without a pod, or about another pod, is an error.
func (m *Manager) request(ctx context.Context, s *step) (*v1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	switch s.request {
	case RequestGet:
		pod, err := m.getter.GetPod(ctx, s.ref)
		if err == nil && (pod == nil || pod.UID == "") {
			err = fmt.Errorf("getting pod %s: %w", s.ref, errNoPod)
		}
		return pod, err
	case RequestPatch:
		var pod *v1.Pod
		var err error
		if s.set != nil {
			pod, err = m.setter.SetStatus(ctx, s.ref, *s.set)
		} else {
			pod, err = m.options.Patcher.PatchStatus(ctx, s.ref, s.patch)
		}
		switch {
		case err != nil || pod == nil || pod.UID == s.ref.UID:
			return pod, err
		case pod.UID == "":
			return nil, nil // same as a Patcher that returns no pod
		}
		return nil, fmt.Errorf("patching the status of pod %s: %w, UID %s", s.ref, errAnotherPod, pod.UID)
	default:
		return nil, m.options.Patcher.DeletePod(ctx, s.ref)
	}
}

// settle records the end of a step, and reports whether another step may follow in the same turn.
// An answer about an object that has been replaced since, such as an earlier mirror pod, changes
// nothing. The lock is held.
func (m *Manager) settle(e *entry, s *step, pod *v1.Pod, ev *RequestEvent, unsendable bool) (goOn bool) {
	now := time.Now()
	if s.request != RequestNone && e.remote.ref.UID != s.ref.UID { // another object was observed meanwhile
		e.budget.charge(now)
		return false
	}
	v, retryAfter := judge(ev.Err)
	if unsendable {
		v = verdictRejected
	}
	switch v {
	case verdictDone:
		if s.request == RequestPatch {
			ev.Latency = now.Sub(e.changed)
		}
		m.succeed(e, s, pod, now)
		ev.Refused = s.request == RequestPatch && len(e.remote.refused) > 0
		return s.request == RequestGet || s.request == RequestPatch && !e.done()
	case verdictGone:
		e.lose(now)
		e.failures, e.notUntil = 0, time.Time{}
		e.budget.charge(now)
		e.budget.told()
		e.acknowledged()
		return false
	}
	return m.fail(e, s, v, retryAfter, now)
}

// succeed records a successful step. A GET does not predict the outcome of the next PATCH, so the
// failures stay. The lock is held.
func (m *Manager) succeed(e *entry, s *step, pod *v1.Pod, now time.Time) {
	unheard := s.said > e.told
	e.record.settle(s, pod, now)
	if s.request != RequestGet {
		e.failures, e.notUntil = 0, time.Time{}
		e.told = max(e.told, s.version)
	}
	took := s.request == RequestPatch && len(e.remote.refused) == 0
	if s.request != RequestNone && !(took && unheard) {
		e.budget.charge(now)
	}
	// With a held end the server does not have all news: the containers may have ended during the
	// request.
	if s.request != RequestGet && e.version == s.version && !s.held && !e.awaitsDelete() {
		e.budget.told()
	}
	e.acknowledged()
}

// fail records a failed step, and reports whether a GET should follow at once. The lock is held.
func (m *Manager) fail(e *entry, s *step, v verdict, retryAfter time.Duration, now time.Time) (goOn bool) {
	e.failures++
	e.budget.charge(now)
	wait := delay(min(e.failures, e.budget.tries()), retryAfter, m.options.Jitter) // news begin the back-off anew
	switch v {
	case verdictConflict:
		e.remote.status = nil
		if e.failures == 1 && m.getter != nil {
			return true
		}
		if m.getter == nil {
			wait = max(wait, rejectedDelay) // no Getter can tell which pod the server has
		}
	case verdictRejected:
		wait = max(wait, rejectedDelay)
	case verdictFailed:
		e.remote.doubt = e.remote.doubt || s.request == RequestPatch
	}
	if e.version == s.version { // a newer status does not wait
		e.notUntil = now.Add(wait)
	}
	return false
}

// report tells the hook and the log of a request. No lock is held.
func (m *Manager) report(ev *RequestEvent) {
	if ev.Request == RequestNone && ev.Err == nil {
		return
	}
	if m.options.OnRequest != nil {
		m.options.OnRequest(*ev)
	}
	fields := []zap.Field{zap.String("pod", ev.Pod.Namespace+"/"+ev.Pod.Name), zap.String("podUID", string(ev.UID)),
		zap.Stringer("request", ev.Request)}
	switch v, _ := judge(ev.Err); {
	case v == verdictGone, v == verdictConflict && ev.Failures <= 1: // a pod that is deleted, or edited, at this moment
		m.options.Logger.Debug("Status request came late", append(fields, zap.Error(ev.Err))...)
	case ev.Err != nil:
		m.options.Logger.Warn("Status request failed", append(fields, zap.Int("failures", ev.Failures), zap.Error(ev.Err))...)
	case ev.Refused:
		m.options.Logger.Warn("The API server does not keep the status", fields...)
	}
}
