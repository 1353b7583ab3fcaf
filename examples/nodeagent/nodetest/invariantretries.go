// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"net/http"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/statusmanager"
)

// Invariants about the times of an agent's requests to the API server.

const (
	// burst is the number of requests about news, without a pause of MaxBackoff between them.
	burst = 6
	// longestWait is the longest time for which an agent waits after an answer, whatever the answer says.
	longestWait = time.Minute
)

// pauses checks that an agent repeats no request in a hurry: news permit a burst of requests, and without news there is one
// per MaxBackoff. After an answer with a delay, or after a refusal, the agent waits, unless there are news.
func (c *checker) pauses() {
	for _, t := range c.talks() {
		since, n, resume := time.Duration(-1), 0, time.Duration(-1)
		for i := range t.requests {
			r := &t.requests[i]
			if t.mirror && r.Request != statusmanager.RequestPatch {
				continue // of the part that makes mirror pods
			}
			if at := c.newsBefore(t, r.At); at > since || i > 0 && at >= t.requests[i-1].At {
				since, n, resume = at, 0, -1
			}
			n++
			switch {
			case r.At < since, c.suspendedIn(r.At-longestWait, r.At): // of an earlier agent
			case r.At < resume:
				c.violate(r.At, "%s of %s (%s) comes before %.3fs, and there are no news since %.3fs", r.Request, r.Pod.Name, t.uid, resume.Seconds(), since.Seconds())
			case n > burst+int((r.At-since)/statusmanager.MaxBackoff):
				c.violate(r.At, "%s of %s (%s) is request %d since the news of %.3fs", r.Request, r.Pod.Name, t.uid, n, since.Seconds())
			}
			if wait := waitAfter(r); wait > 0 {
				resume = r.end + wait
			}
		}
	}
}

// waitAfter returns how long an agent has to wait after an answer.
func waitAfter(r *request) time.Duration {
	var status apierrors.APIStatus
	if r.Err == nil || !errors.As(r.Err, &status) {
		return 0
	}
	switch code := status.Status().Code; code {
	case http.StatusForbidden, http.StatusUnprocessableEntity:
		if r.Request == statusmanager.RequestPatch && !anotherUID(r.Err) {
			return longestWait
		}
	case http.StatusTooManyRequests:
		seconds, _ := apierrors.SuggestsClientDelay(r.Err)
		return min(time.Duration(seconds)*time.Second, longestWait)
	}
	return 0
}

// anotherUID reports whether the server refused the UID of a patch.
func anotherUID(err error) bool {
	return apierrors.HasStatusCause(err, "FieldValueInvalid")
}

// newsBefore returns the time of the last event until then that may be news about a pod: a publication, another version on the
// server, another agent, a probe, or an operation on its containers and volumes.
func (c *checker) newsBefore(t *talk, until time.Duration) time.Duration {
	last := time.Duration(0)
	news := func(at time.Duration) {
		if at <= until {
			last = max(last, at)
		}
	}
	for _, told := range t.told {
		news(told.At)
	}
	for _, s := range t.stored {
		news(s.At)
	}
	for _, m := range c.h.Marks {
		if m.Kind != MarkRemark {
			news(m.At)
		}
	}
	if len(t.told) == 0 {
		return last
	}
	uid := t.told[0].Pod.UID
	for _, p := range c.h.Probes {
		if p.UID == uid {
			news(p.At)
		}
	}
	for _, e := range c.h.Calls {
		if e.UID == uid {
			news(e.At)
			news(e.DoneAt)
		}
	}
	for _, e := range c.h.Volumes {
		if e.UID == uid {
			news(e.At)
		}
	}
	for _, told := range c.h.Told {
		if podconfig.IsMirror(t.last()) || told.Source == podconfig.SourceAPI {
			news(told.At)
		}
	}
	return last
}

// reads checks that an agent reads a pod of the API server only after a conflict: the watch has shown the pod.
func (c *checker) reads() {
	for _, t := range c.talks() {
		conflict := t.mirror
		for i, r := range t.requests {
			if i > 0 && c.agentBetween(t.requests[i-1].At+1, r.At) {
				conflict = t.mirror
			}
			if r.Request == statusmanager.RequestGet && !conflict && !c.agentBetween(max(1, r.At), r.At) {
				c.violate(r.At, "%s (%s) is read from the API server, and there was no conflict", r.Pod.Name, t.uid)
			}
			conflict = conflict || r.Err != nil && (apierrors.IsConflict(r.Err) || anotherUID(r.Err))
		}
	}
}

// gone checks that an agent sends no request for a pod that the server does not have any more: the server has said so, or has
// shown another pod of the name. The watch may show the pod again while it is late.
func (c *checker) gone() {
	for _, t := range c.talks() {
		lost, another := forever, false
		for i, r := range t.requests {
			if i > 0 && c.agentBetween(t.requests[i-1].At+1, r.At) {
				lost, another = forever, false
			}
			if r.At > lost && !t.mirror && !c.outIn(outageWatch, lost, r.At) && !c.suspendedIn(lost, r.At) {
				c.violate(r.At, "%s of %s (%s), which the server has not had since %.3fs", r.Request, r.Pod.Name, t.uid, lost.Seconds())
			}
			another = another || r.Err != nil && anotherUID(r.Err)
			if apierrors.IsNotFound(r.Err) || another && r.Request == statusmanager.RequestGet && r.Err == nil {
				lost = min(lost, r.end)
			}
		}
	}
}

const (
	// heardSoon is the time after which the server has a status: a status between init containers waits for two seconds, and a
	// request takes up to half a second.
	heardSoon = 5 * time.Second
	// heardLate is that time after a failed request.
	heardLate = longestWait + longestWait/4 + heardSoon
)

// delays checks that the server has each status in time: after its publication, and again after the change of another client.
// Of several publications and changes the last counts.
func (c *checker) delays() {
	for _, t := range c.talks() {
		var events []time.Duration
		for _, told := range t.told {
			events = append(events, told.At)
		}
		for _, f := range t.foreign {
			events = append(events, f.at)
		}
		slices.Sort(events)
		for i, at := range events {
			by := at + heardSoon
			if slices.ContainsFunc(t.foreign, func(f foreign) bool { return f.at == at }) {
				by += statusmanager.MaxBackoff // for the agent, this is no news
			}
			before := func(f foreign) bool { return f.at < at && f.at > at-heardLate }
			if c.outIn(outageAPI, at-heardLate, by) || slices.ContainsFunc(t.foreign, before) {
				by = at + heardLate
			}
			if !t.mirror && by <= c.h.Taken && (i+1 == len(events) || events[i+1] > by) && !c.disturbed(at, by) {
				c.heardBy(t, by)
			}
		}
	}
}

// disturbed reports whether an agent or the server delays a status: no agent runs, or another one has begun.
func (c *checker) disturbed(from, to time.Duration) bool {
	runs := false
	for _, m := range c.h.Marks {
		if m.At <= from && m.Kind != MarkRemark {
			runs = m.Kind != MarkAgentStopped && m.Kind != MarkAgentCrashed
		}
	}
	return !runs || c.suspendedIn(from, to) || c.outIn(outageAPI, from, to) || slices.ContainsFunc(c.h.Marks, func(m Mark) bool {
		return m.Kind != MarkRemark && m.At >= from-toldLate && m.At <= to
	})
}

// heardBy checks that the server has the last published status of a wanted pod.
func (c *checker) heardBy(t *talk, by time.Duration) {
	shown, last := t.shownAt(by), c.toldBy(t, by, 0)
	if _, n := c.spanAt(t.uid, by); shown == nil || len(last) == 0 || n < 0 || c.wanted[t.uid][n].to <= by {
		return
	}
	now := &request{end: by}
	now.At = by
	w := writing{c: c, late: toldLate, t: t, r: now, told: last[0], pod: shown, was: &shown.Status, is: &shown.Status}
	if err := w.fits(); err != nil {
		c.violate(by, "the API server has not got the status of %s (%s) of %.3fs: %v", shown.Name, t.uid, last[0].At.Seconds(), err)
	}
}

// shownAt returns the pod on the server at some time, or nil.
func (t *talk) shownAt(at time.Duration) (pod *v1.Pod) {
	for _, s := range t.stored {
		if s.At <= at {
			pod = s.Pod
		}
	}
	for _, r := range t.requests {
		if r.Request == statusmanager.RequestDelete && r.Changed && r.end <= at {
			return nil
		}
	}
	return pod
}
