// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// Check judges a history by the invariants of a node, which hold under every fault. The error lists
// the violations:
//
//   - two instances of a container at once, in any sandboxes, or two static pods with the same name
//   - a start of a container of a pod that is not wanted according to the agent's sources, or that
//     has ended
//   - a start for a removed pod that has come back, before the earlier instances have ended
//   - a start of a regular container while an init container of its pod, which must complete first,
//     still runs
//   - a start of a regular container while a sidecar of its pod is known to be down, or has not
//     passed its startup probe
//   - an exit that was never published although the container was started again, or was published
//     with wrong data; two instances with the same restart count; a decreasing restart count
//   - a status without any end of a container whose end the agent has published before
//   - a phase after Succeeded or Failed
//   - a pod that is reported to exceed a deadline before the deadline has passed
//   - a status with the resources of a resize as allocated while the container does not have the
//     resources, and without a resize in progress
//   - a container that runs without its volumes of VolumeDriver
//   - an image that is removed while a container uses it, a container created without its image, or
//     a pull of a present image
//   - a mirror pod that is replaced although its static pod has not changed and no user has deleted it
//   - a stop of a container without a cause, or a start of a container that has ended for good
//   - a status on the API server that takes back an end, a start time, a restart count or a condition of
//     another client; an end or a removal there while a container of the pod runs
//   - a patch of a status with a field or condition of another client, with a field that changes nothing, or with
//     less than every field after a patch that may have been carried out
//   - a status on the API server that differs from the published status, or that follows it late
//   - requests to the API server that follow each other faster than news and answers permit, a read of a pod without
//     a conflict, or a request for a pod that the server does not have
//   - more calls to the runtime for a pod within a second than any reaction needs
func Check(h History) error {
	c := newChecker(h)
	c.overlaps()
	c.unwantedStarts()
	c.order()
	c.sidecars()
	c.phases()
	c.exits()
	c.endsKept()
	c.counts()
	c.volumes()
	c.deadlines()
	c.resizes()
	c.readiness()
	c.rates()
	c.images()
	c.stops()
	c.finals()
	c.server()
	c.patches()
	c.writes()
	c.pauses()
	c.reads()
	c.gone()
	c.delays()
	for _, a := range abilities() {
		if a.check != nil {
			a.check(c)
		}
	}
	slices.SortStableFunc(c.found, func(a, b violation) int { return cmp.Compare(a.at, b.at) })
	errs := []error{h.Overlaps}
	for i, v := range c.found {
		if i == mostTold {
			errs = append(errs, fmt.Errorf("and %d more", len(c.found)-i))
			break
		}
		errs = append(errs, fmt.Errorf("%.3fs: %s", v.at.Seconds(), v.text))
	}
	return errors.Join(errs...)
}

// mostTold is the maximum number of violations in an error.
const mostTold = 10

type violation struct {
	at   time.Duration
	text string
}

// instance is a container instance that ran.
type instance struct {
	uid             types.UID
	pod, name, id   string
	image           string        // of an instance that the agent has created
	called          time.Duration // time of the call that started it; -1: not started by the agent
	started, exited time.Duration
	entry, exit     int  // the journal's entries about its start and its end
	running         bool // at the end of the history
	detail          string
	recordsLost     bool // by an injected fault
	trackLost       bool // by the runtime
}

// began returns the time of the call that started the instance, or the time of its start if the
// agent did not start it.
func (i *instance) began() time.Duration {
	if i.called < 0 {
		return i.started
	}
	return i.called
}

// span is a time in which a source wants a pod, as submitted to its agent.
type span struct {
	from, to time.Duration // to: time of the removal; forever without a removal
	last     time.Duration // time of the last submission with the pod
	hash     string        // of the manifest
	static   bool
}

const forever = time.Duration(1<<63 - 1)

type checker struct {
	h         History
	instances []*instance // by start
	byID      map[string]*instance
	wanted    map[types.UID][]span // in order
	found     []violation
}

func newChecker(h History) *checker {
	c := &checker{h: h, byID: make(map[string]*instance), wanted: make(map[types.UID][]span)}
	for n, e := range h.Calls {
		switch {
		case e.Op == fake.OpStartContainer && e.Done:
			i := &instance{uid: e.UID, pod: e.Namespace + "/" + e.Pod, name: e.Container, id: e.ID, image: e.Image, called: e.At, started: e.DoneAt, exited: forever, entry: n, exit: len(h.Calls), running: true}
			c.byID[e.ID] = i
			c.instances = append(c.instances, i)
		case e.Op == fake.OpReplaced:
			i := &instance{uid: e.UID, pod: e.Namespace + "/" + e.Pod, name: e.Container, id: e.ID, called: -1, started: e.At, exited: forever, entry: n, exit: len(h.Calls), running: true}
			c.byID[e.ID] = i
			c.instances = append(c.instances, i)
		}
	}
	for n, e := range h.Calls {
		i := c.byID[e.ID]
		switch {
		case i == nil:
		case e.Op == fake.OpExited:
			i.exited, i.exit, i.running, i.detail = e.At, n, false, e.Detail
		case e.Op == fake.OpLostRecords:
			i.recordsLost = true
		case e.Op == fake.OpLostTrack:
			i.trackLost = true
		}
	}
	slices.SortStableFunc(c.instances, func(a, b *instance) int { return cmp.Compare(a.started, b.started) })
	c.readTold()
	return c
}

func (c *checker) violate(at time.Duration, format string, args ...any) {
	c.found = append(c.found, violation{at, fmt.Sprintf(format, args...)})
}

// readTold derives spans from the submissions of the sources.
func (c *checker) readTold() {
	open := make(map[string]map[types.UID]bool) // by source
	for _, t := range c.h.Told {
		before, now := open[t.Source], make(map[types.UID]bool)
		for _, pod := range t.Pods {
			if pod.DeletionTimestamp != nil || over(pod.Status.Phase) && t.Source == podconfig.SourceAPI {
				continue
			}
			now[pod.UID] = true
			hash := pod.Annotations[podconfig.AnnotationHash]
			spans := c.wanted[pod.UID]
			if last := len(spans) - 1; before[pod.UID] && spans[last].hash == hash {
				spans[last].last = t.At
				continue
			} else if before[pod.UID] {
				spans[last].to = t.At
			}
			c.wanted[pod.UID] = append(spans, span{t.At, forever, t.At, hash, t.Source != podconfig.SourceAPI})
		}
		for uid := range before {
			if spans := c.wanted[uid]; !now[uid] && spans[len(spans)-1].to == forever {
				spans[len(spans)-1].to = t.At
			}
		}
		open[t.Source] = now
	}
}

// spanAt returns the last span of uid that began at or before at.
func (c *checker) spanAt(uid types.UID, at time.Duration) (s span, n int) {
	n = -1
	for i, candidate := range c.wanted[uid] {
		if candidate.from <= at {
			s, n = candidate, i
		}
	}
	return s, n
}

// agentBetween reports whether another agent began in that time. A new agent knows only the state
// that it finds.
func (c *checker) agentBetween(from, to time.Duration) bool {
	return slices.ContainsFunc(c.h.Marks, func(m Mark) bool { return m.Kind == MarkAgentStarted && m.At >= from && m.At <= to })
}

// wasBlind reports whether the agent at the time at had only received errors for its reads of the
// pod, or still waited for one of its first reads: a later List, as that of the collection of garbage,
// shows nothing to the worker of the pod.
func (c *checker) wasBlind(uid types.UID, at time.Duration) bool {
	began := time.Duration(0)
	for _, m := range c.h.Marks {
		if m.Kind == MarkAgentStarted && m.At <= at {
			began = m.At
		}
	}
	var failed, saw bool
	for _, e := range c.h.Calls {
		switch {
		case e.Op != fake.OpList && (e.Op != fake.OpPodStatus || e.UID != uid), e.At < began, e.At > at:
		case e.At == began && (e.UnderWay || e.At+e.Took > at):
			return true
		case e.Err == nil && e.DoneAt <= at:
			saw = true
		default:
			failed = true
		}
	}
	return failed && !saw
}

// overlaps checks pods with the same name. World.NoOverlap checks instances of a pod.
func (c *checker) overlaps() {
	for i, a := range c.instances {
		for _, b := range c.instances[i+1:] {
			// The start may have been in progress when the other began. A violation is a call for
			// the start while the other ran.
			if a.pod == b.pod && a.uid != b.uid && a.started < b.called && b.called < a.exited && b.exited > b.started &&
				c.isStatic(a.uid) && c.isStatic(b.uid) {
				c.violate(b.started, "two pods %s at once: %s of %s started while %s of %s ran", a.pod, b.id, b.uid, a.id, a.uid)
			}
		}
	}
}

func (c *checker) isStatic(uid types.UID) bool {
	spans := c.wanted[uid]
	return len(spans) > 0 && spans[0].static
}

// unwantedStarts checks for starts that no source and no policy asked for.
func (c *checker) unwantedStarts() {
	for _, i := range c.instances {
		if i.called < 0 {
			continue
		}
		s, n := c.spanAt(i.uid, i.called)
		switch {
		case n < 0:
			c.violate(i.called, "start of %s (%s %s), which no source ever wanted", i.id, i.pod, i.uid)
		case i.called > s.to:
			c.violate(i.called, "start of %s (%s %s/%s), although the agent was told at %.3fs that the pod is not wanted", i.id, i.pod, i.uid, i.name, s.to.Seconds())
		case n > 0:
			c.cameBack(i, c.wanted[i.uid][n-1], s)
		}
	}
}

// cameBack checks the start of a pod that was to end, and then came back or changed its manifest:
// the pod does not start before its earlier instances have ended. An agent that is newer than the
// change, or had not begun to work on the pod, adopts the instances that it finds.
func (c *checker) cameBack(i *instance, before, now span) {
	if !now.static || i.called <= now.from || c.agentBetween(before.last-soon, i.called) || c.wasBlind(i.uid, now.from) {
		return
	}
	for _, old := range c.instances {
		if old.uid == i.uid && old.started < before.to && old.exited > i.called {
			c.violate(i.called, "start of %s (%s %s/%s), although the pod was told to end at %.3fs and %s still ran",
				i.id, i.pod, i.uid, i.name, before.to.Seconds(), old.id)
		}
	}
}

// volumes checks that a container has its volumes from its start to its end.
func (c *checker) volumes() {
	type key struct {
		uid    types.UID
		volume string
	}
	ready := make(map[key]bool)
	for _, e := range c.h.Volumes {
		k := key{e.UID, e.Volume}
		switch e.What {
		case VolumeReady:
			ready[k] = true
		case VolumeLeaving:
			if len(e.Running) > 0 {
				c.violate(e.At, "volume %s of %s is torn down while containers %v run", e.Volume, e.UID, e.Running)
			}
			for _, i := range c.instances {
				// A start that is requested later may take effect during the teardown.
				if i.uid == e.UID && i.called >= 0 && i.called < e.At && i.started > e.At && ready[k] {
					c.violate(e.At, "volume %s of %s is torn down while %s is being started", e.Volume, e.UID, i.id)
				}
			}
			ready[k] = false
		}
	}
}
