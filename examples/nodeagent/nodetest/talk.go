// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"net/http"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// talk is the conversation about the status of a pod on the API server: between the agents of its node, the
// server, and other clients of the server.
type talk struct {
	uid      types.UID
	mirror   bool        // it is the mirror pod of a static pod
	told     []Published // by agents
	stored   []Stored    // versions on the server
	foreign  []foreign
	requests []request // in the order of their end
}

// foreign is a change of the status by another client. The agents' watch shows it at the time seen.
type foreign struct{ at, seen time.Duration }

// request is a request of an agent.
type request struct {
	statustest.Entry
	end           time.Duration
	before, after *v1.Pod // versions on the server ahead of a patch, and by it; nil if the patch changed nothing
	// unsure: an earlier patch of the same agent may have been carried out, and the agent has no clear answer.
	// hazy: the agent may have missed the answer of an earlier request, or not know the last change of another client.
	unsure, hazy bool
}

// talks returns all conversations.
func (c *checker) talks() []*talk {
	var all []*talk
	byUID := make(map[types.UID]*talk)
	others := make(map[version]bool)
	for _, v := range c.h.Changed {
		others[v] = true
	}
	for _, s := range c.h.Stored {
		t := byUID[s.Pod.UID]
		switch {
		case t == nil:
			t = &talk{uid: s.Pod.UID, mirror: podconfig.IsMirror(s.Pod)}
			byUID[t.uid], all = t, append(all, t)
		case others[versionOf(s.Pod)] && !equality.Semantic.DeepEqual(t.last().Status, s.Pod.Status):
			t.foreign = append(t.foreign, foreign{s.At, c.seenFrom(s.At)})
		}
		t.stored = append(t.stored, s)
	}
	for _, e := range c.h.Requests {
		if t := byUID[e.Pod.UID]; t != nil {
			t.requests = append(t.requests, request{Entry: e, end: e.At + e.Took})
		}
	}
	for _, t := range all {
		for _, told := range c.h.Statuses {
			if told.Pod.UID == t.uid || t.mirror && podconfig.IsStatic(told.Pod) && told.Pod.Name == t.last().Name {
				t.told = append(t.told, told)
			}
		}
		t.match(others)
		c.remember(t)
	}
	return all
}

func (t *talk) last() *v1.Pod { return t.stored[len(t.stored)-1].Pod }

// match finds the version that each patch has made.
func (t *talk) match(others map[version]bool) {
	matched := 0 // versions
	for i := range t.requests {
		r := &t.requests[i]
		if r.Request != statusmanager.RequestPatch || !r.Changed {
			continue
		}
		for n := max(matched, 1); n < len(t.stored); n++ {
			s, before := t.stored[n], t.stored[n-1].Pod
			if s.At == r.end && !others[versionOf(s.Pod)] && !equality.Semantic.DeepEqual(before.Status, s.Pod.Status) {
				r.before, r.after, matched = before, s.Pod, n+1
				break
			}
		}
	}
}

// remember says of each request how much the agent knows of the requests and changes before.
func (c *checker) remember(t *talk) {
	unsure, hazy, known := false, false, time.Duration(-1)
	for i := range t.requests {
		r := &t.requests[i]
		if i > 0 && c.agentBetween(t.requests[i-1].At+1, r.At) {
			unsure, hazy, known = false, false, r.At-toldLate
		}
		r.unsure = unsure
		r.hazy = hazy || t.meddled(known, r) || c.suspendedIn(r.At, r.end) || c.agentBetween(max(r.At, 1), r.end) || c.crosses(t, r)
		switch {
		case c.suspendedIn(r.At, r.end+1):
			hazy = true
		case r.Request != statusmanager.RequestPatch:
		case r.Err == nil:
			unsure, hazy, known = false, false, r.At
		case unclear(r.Err):
			unsure = true
		}
	}
}

// crosses reports whether a patch of an earlier agent is carried out during a request, or a short time before: the watch
// of this agent may not have shown its effect.
func (c *checker) crosses(t *talk, r *request) bool {
	return slices.ContainsFunc(t.requests, func(o request) bool {
		return o.At < r.At && o.end > o.At && (o.end >= r.At || o.end+toldLate >= r.At && c.agentBetween(o.At+1, o.end))
	})
}

// meddled reports whether another client has changed the status, and the agent did not know it at the begin of a request.
func (t *talk) meddled(known time.Duration, r *request) bool {
	return slices.ContainsFunc(t.foreign, func(f foreign) bool { return f.at >= known && f.at <= r.end && f.seen >= r.At })
}

// seenFrom returns the time of the first list of the API server's pods from some time on.
func (c *checker) seenFrom(at time.Duration) time.Duration {
	for _, told := range c.h.Told {
		if told.Source == podconfig.SourceAPI && told.At >= at {
			return told.At
		}
	}
	return forever
}

// outIn reports whether an outage overlaps a time.
func (c *checker) outIn(what string, from, to time.Duration) bool {
	return slices.ContainsFunc(c.outages(what, 0), func(o lack) bool { return o.from <= to && o.to >= from })
}

// unclear reports whether a request that failed may have been carried out.
func unclear(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code >= http.StatusInternalServerError || code == http.StatusRequestTimeout
}

// suspendedIn reports whether the agent was suspended in that time, or shortly before: calls that it had
// prepared begin when it continues.
func (c *checker) suspendedIn(from, to time.Duration) bool {
	began := forever
	for _, m := range c.h.Marks {
		switch m.Kind {
		case MarkAgentSuspended:
			began = m.At
		case MarkAgentResumed, MarkAgentCrashed, MarkAgentStopped:
			if began <= to && m.At+toldLate >= from {
				return true
			}
			began = forever
		case MarkAgentStarted, MarkRemark:
		}
	}
	return began <= to
}
