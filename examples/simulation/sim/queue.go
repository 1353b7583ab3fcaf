// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"slices"
	"time"
)

// Never is an instant after all others.
const Never = time.Duration(math.MaxInt64)

// flushEvery is the interval at which old unschedulable pods are tried again.
const flushEvery = 30 * time.Second

// queuing is the state of a pod in the Queue.
type queuing struct {
	place     place
	at        time.Duration // of the last move to active
	since     time.Duration // of the last failure
	expiry    time.Duration // of the back-off, a whole second
	attempts  int
	failures  int
	errors    int
	nominated *Node
	victims   int // preempted pods that have not ended
	seq       uint64
}

// place is the part of the Queue that holds a pod.
type place uint8

const (
	nowhere place = iota
	active
	backingOff
	backingOffErrors
	unschedulable
)

// ticket is a pod's entry in a heap. It is stale if the pod has been moved since.
type ticket struct {
	pod *Pod
	seq uint64
}

func (t ticket) stale() bool { return t.pod.queued.seq != t.seq }

// Queue holds the pods that are not bound, as kube-scheduler 1.36 does: active pods, pods in back-off
// after a refusal or an error, and unschedulable pods that wait for an event.
type Queue struct {
	profile  *Profile
	active   heap[ticket]
	backoff  heap[ticket]
	errors   heap[ticket]
	waiting  []*bucket // unschedulable pods, by Shape and refusing plug-ins
	byBucket map[bucketKey]*bucket
	counts   [5]int
	seq      uint64
}

type bucketKey struct {
	shape     *Shape
	rejectors uint64
}

// bucket are unschedulable pods that every event treats alike.
type bucket struct {
	bucketKey
	tickets []ticket
}

func newQueue(profile *Profile) *Queue {
	byLess := func(a, b ticket) bool { return profile.Less(a.pod, b.pod) }
	byExpiry := func(a, b ticket) bool {
		if x, y := a.pod.queued.expiry, b.pod.queued.expiry; x != y {
			return x < y
		}
		return byLess(a, b)
	}
	return &Queue{
		profile: profile, active: heap[ticket]{less: byLess}, backoff: heap[ticket]{less: byExpiry}, errors: heap[ticket]{less: byExpiry},
		byBucket: map[bucketKey]*bucket{},
	}
}

// Len returns the number of active pods, of pods in back-off, and of unschedulable pods.
func (q *Queue) Len() (activePods, backoffPods, unschedulablePods int) {
	return q.counts[active], q.counts[backingOff] + q.counts[backingOffErrors], q.counts[unschedulable]
}

// move records the place of the pod.
func (q *Queue) move(p *Pod, to place) ticket {
	q.counts[p.queued.place]--
	q.counts[to]++
	q.seq++
	p.queued.place, p.queued.seq = to, q.seq
	return ticket{p, q.seq}
}

// add makes a pod active.
func (q *Queue) add(p *Pod, now time.Duration) {
	p.queued.at = now
	q.active.push(q.move(p, active))
}

// drop removes a pod.
func (q *Queue) drop(p *Pod) { q.move(p, nowhere) }

// pop removes the next pod, and a pod in back-off if no pod is active.
func (q *Queue) pop() *Pod {
	sources := []*heap[ticket]{&q.active, &q.backoff}
	if q.profile.Backoff.Strict {
		sources = sources[:1]
	}
	for _, h := range sources {
		for h.len() > 0 {
			if t := h.pop(); !t.stale() {
				q.move(t.pod, nowhere)
				t.pod.queued.attempts++
				return t.pod
			}
		}
	}
	return nil
}

// ready reports whether pop would return a pod.
func (q *Queue) ready() bool {
	return q.counts[active] > 0 || !q.profile.Backoff.Strict && q.counts[backingOff] > 0
}

// refuse puts a refused pod back into the queue. rejectors are the plug-ins that refused the pod.
func (q *Queue) refuse(p *Pod, rejectors uint64, now time.Duration) {
	p.queued.failures++
	p.queued.errors = 0
	q.delay(p, p.queued.failures, now)
	key := bucketKey{p.Shape, rejectors}
	b := q.byBucket[key]
	if b == nil {
		b = &bucket{bucketKey: key}
		q.byBucket[key] = b
		q.waiting = append(q.waiting, b)
	}
	b.tickets = append(b.tickets, q.move(p, unschedulable))
}

// fail puts a pod back into the queue after an error. Events do not release the pod: only its back-off
// does.
func (q *Queue) fail(p *Pod, now time.Duration) {
	p.queued.errors++
	q.delay(p, p.queued.errors, now)
	q.errors.push(q.move(p, backingOffErrors))
}

// delay sets the end of the back-off after the count-th failure.
func (q *Queue) delay(p *Pod, count int, now time.Duration) {
	b := &q.profile.Backoff
	wait := b.Initial
	for range count - 1 {
		if wait *= 2; wait >= b.Max {
			break
		}
	}
	p.queued.since = now
	p.queued.expiry = (now + min(wait, b.Max)).Truncate(time.Second)
}

// event moves the pods that may fit after an event.
func (q *Queue) event(e ClusterEvent, now time.Duration) {
	if q.counts[unschedulable] == 0 {
		return
	}
	for _, b := range q.waiting {
		if len(b.tickets) == 0 || !q.helps(b, e) {
			continue
		}
		kept := b.tickets[:0]
		for _, t := range b.tickets {
			switch {
			case t.stale():
			case t.pod.queued.victims > 0:
				kept = append(kept, t)
			default:
				q.release(t.pod, now)
			}
		}
		clear(b.tickets[len(kept):])
		b.tickets = kept
	}
	if len(q.waiting) > 64 {
		q.sweep()
	}
}

// sweep removes empty buckets.
func (q *Queue) sweep() {
	q.waiting = slices.DeleteFunc(q.waiting, func(b *bucket) bool {
		empty := len(b.tickets) == 0
		if empty {
			delete(q.byBucket, b.bucketKey)
		}
		return empty
	})
}

// helps asks the hints of the plug-ins that refused the pods of a bucket.
func (q *Queue) helps(b *bucket, e ClusterEvent) bool {
	if b.rejectors == 0 {
		return true
	}
	for i, f := range q.profile.Filter {
		if b.rejectors&(1<<i) == 0 {
			continue
		}
		if hint, ok := f.(Hint); !ok || hint.Hint(&Pod{Shape: b.shape}, e) {
			return true
		}
	}
	return false
}

// release makes an unschedulable pod active, or lets it wait for the end of its back-off.
func (q *Queue) release(p *Pod, now time.Duration) {
	if p.queued.expiry <= now {
		q.add(p, now)
	} else {
		q.backoff.push(q.move(p, backingOff))
	}
}

// tick makes pods active whose back-off has ended, and pods that were unschedulable for a long time.
func (q *Queue) tick(now time.Duration) {
	for _, h := range []*heap[ticket]{&q.backoff, &q.errors} {
		for h.len() > 0 && (h.top().stale() || h.top().pod.queued.expiry <= now) {
			if t := h.pop(); !t.stale() {
				q.add(t.pod, now)
			}
		}
	}
	for _, b := range q.waiting {
		kept := b.tickets[:0]
		for _, t := range b.tickets {
			switch {
			case t.stale():
			case t.pod.queued.victims == 0 && now >= q.flushAt(t.pod):
				q.release(t.pod, now)
			default:
				kept = append(kept, t)
			}
		}
		clear(b.tickets[len(kept):])
		b.tickets = kept
	}
}

// flushAt returns the instant at which an unschedulable pod is tried again without an event.
func (q *Queue) flushAt(p *Pod) time.Duration {
	at := p.queued.since + q.profile.Backoff.Flush
	return (at + flushEvery - 1).Truncate(flushEvery)
}

// wake returns the next instant at which tick moves a pod.
func (q *Queue) wake() time.Duration {
	at := Never
	for _, h := range []*heap[ticket]{&q.backoff, &q.errors} {
		for h.len() > 0 && h.top().stale() {
			h.pop()
		}
		if h.len() > 0 {
			at = min(at, h.top().pod.queued.expiry)
		}
	}
	for _, b := range q.waiting {
		for len(b.tickets) > 0 && b.tickets[0].stale() {
			b.tickets = b.tickets[1:]
		}
		// A pod whose victims have not ended is released by the end of the last victim.
		i := slices.IndexFunc(b.tickets, func(t ticket) bool { return !t.stale() && t.pod.queued.victims == 0 })
		if i >= 0 {
			at = min(at, q.flushAt(b.tickets[i].pod))
		}
	}
	return at
}
