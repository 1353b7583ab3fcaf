// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"context"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RequestEvent is a request to the API server that has ended.
type RequestEvent struct {
	// Pod is whom it was about, and UID the pod's own: they differ for static pods.
	Pod PodRef
	UID types.UID
	// Request is what was asked, Class how urgent it was.
	Request Request
	Class   Class
	// Bytes is the size of the patch.
	Bytes int
	// Failures is how many requests for the pod failed in a row before this one.
	Failures int
	// Started and Took tell when it was made and how long it took.
	Started time.Time
	Took    time.Duration
	// Latency, for a patch that was carried out, is the time since the oldest change it carries was accepted, that is,
	// what the kubelet means by pod_status_sync_duration_seconds.
	Latency time.Duration
	// Err is what came back; nil if it was carried out.
	Err error
	// Refused: the server answered that all is well, but still has something else. That patch is not sent again.
	Refused bool
}

// maxSteps is how many requests a turn has: get, patch, and after a conflict both again, delete.
const maxSteps = 5

// fly has one turn for an entry that take made busy.
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
		if s.request == RequestPatch && patched {
			m.again(e) // a newer status; it may not be as urgent as others
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

func (m *Manager) again(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.again = true
}

// land ends the turn of e. The lock is held.
func (m *Manager) land(e *entry) {
	e.busy = false
	m.mu.busy--
	switch {
	case e.removed:
		delete(m.mu.entries, e.uid)
	case e.again || e.failures > 0:
		m.schedule(e)
	}
	m.kick()
}

// do does one step, and reports whether there may be another in this turn. failed is why there is no step.
func (m *Manager) do(ctx context.Context, e *entry, epoch uint64, s *step, failed error) (goOn bool) {
	m.mu.Lock()
	ev := RequestEvent{
		Pod: s.ref, UID: e.uid, Request: s.request, Class: e.class(), Bytes: len(s.patch), Failures: e.failures,
		Started: time.Now(), Err: failed,
	}
	e.sent = s.version
	m.mu.Unlock()
	var pod *v1.Pod
	if failed == nil && s.request != RequestNone {
		pod, ev.Err = m.request(ctx, s)
	}
	ev.Took = time.Since(ev.Started)
	if ctx.Err() != nil && ev.Err != nil {
		return false // nothing is known, and nothing will be done
	}
	m.mu.Lock()
	if e.epoch == epoch {
		goOn = m.settle(e, s, pod, &ev, failed != nil)
	}
	m.mu.Unlock()
	m.report(&ev)
	return goOn
}

// request asks the API server.
func (m *Manager) request(ctx context.Context, s *step) (*v1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, m.options.RequestTimeout)
	defer cancel()
	switch s.request {
	case RequestGet:
		return m.getter.GetPod(ctx, s.ref)
	case RequestPatch:
		return m.options.Patcher.PatchStatus(ctx, s.ref, s.patch)
	default:
		return nil, m.options.Patcher.DeletePod(ctx, s.ref)
	}
}

// settle takes in the end of a step, and reports whether there may be another in this turn. The lock is held.
func (m *Manager) settle(e *entry, s *step, pod *v1.Pod, ev *RequestEvent, unsendable bool) (goOn bool) {
	now := time.Now()
	v, retryAfter := judge(ev.Err)
	if unsendable {
		v = verdictRejected
	} else if s.request != RequestNone {
		m.judgeServer(e.uid, v, now)
	}
	switch v {
	case verdictDone:
		if s.request == RequestPatch {
			ev.Latency = now.Sub(e.changed)
		}
		e.record.settle(s, pod, now)
		ev.Refused = s.request == RequestPatch && e.remote.refused != nil
		e.failures, e.notUntil = 0, time.Time{}
		e.acknowledged()
		return s.request == RequestGet || s.request == RequestPatch
	case verdictGone:
		e.lose(now)
		e.failures, e.notUntil = 0, time.Time{}
		e.acknowledged()
		return false
	}
	e.failures++
	e.retry = retryOnTime
	delay := m.retry.delay(e.failures, retryAfter)
	switch v {
	case verdictConflict:
		e.remote.status = nil
		if e.failures == 1 && m.getter != nil {
			return true
		}
		if m.getter == nil {
			delay = max(delay, m.options.RejectedDelay) // nobody can tell us who is there
			e.retry = retryOnChange
		}
	case verdictRejected:
		if e.version == s.version {
			delay = max(delay, m.options.RejectedDelay)
			e.retry = retryOnChange
		}
	case verdictFailed, verdictSilent:
		e.remote.doubt = e.remote.doubt || s.request == RequestPatch
		if v == verdictSilent && retryAfter == 0 {
			e.retry = retryOnRecovery
		}
	}
	e.notUntil = now.Add(delay)
	return false
}

// judgeServer takes in what a request tells of the server. The lock is held.
func (m *Manager) judgeServer(uid types.UID, v verdict, now time.Time) {
	if v == verdictSilent {
		m.mu.outage.failed(uid, now, m.options.Jitter)
		return
	}
	if !m.mu.outage.answered() {
		return
	}
	var waiting []*entry
	for _, w := range m.mu.delays.heap {
		if w.entry.retry == retryOnRecovery {
			waiting = append(waiting, w.entry)
		}
	}
	for _, e := range waiting {
		e.notUntil = time.Time{}
		m.schedule(e)
	}
}

// serverIsThere takes in that the server was heard of: if it was thought to be down, it is asked now. The lock is held.
func (m *Manager) serverIsThere() {
	if m.mu.outage.on() {
		m.mu.outage.resumeAt = time.Time{}
		m.kick()
	}
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
	switch {
	case ev.Err != nil:
		m.options.Logger.Warn("Status request failed", append(fields, zap.Int("failures", ev.Failures), zap.Error(ev.Err))...)
	case ev.Refused:
		m.options.Logger.Warn("The API server does not keep the status", fields...)
	}
}
