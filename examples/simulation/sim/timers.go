// SPDX-License-Identifier: Apache-2.0

package sim

import "time"

// timers is the Backend that only knows durations.
type timers struct {
	model Model
	queue heap[timer]
	// pulls has the end of each pull of a node that has begun.
	pulls map[pullKey]time.Duration
	snap  *Snapshot
}

type pullKey struct {
	node  *Node
	image string
}

// timer is the next event of a pod.
type timer struct {
	at    time.Duration
	pod   *Pod
	kind  EventKind
	epoch uint32
}

// Timers is the Backend with durations alone: no container runs, and a pod costs a few timers.
func Timers(o BackendInput) (Backend, error) {
	return &timers{
		model: o.Model, snap: o.Snapshot, pulls: map[pullKey]time.Duration{},
		queue: heap[timer]{less: func(a, b timer) bool {
			if a.at != b.at {
				return a.at < b.at
			}
			if a.pod.UID != b.pod.UID {
				return a.pod.UID < b.pod.UID
			}
			return a.kind < b.kind
		}},
	}, nil
}

func (t *timers) Name() string { return "timers" }

func (t *timers) Bind(now time.Duration, p *Pod) error {
	if p.Node.Ready {
		t.push(p, Pulled, t.pulled(now+t.model.Bind, p))
	}
	return nil
}

// push sets the next event of a pod.
func (t *timers) push(p *Pod, kind EventKind, at time.Duration) {
	t.queue.push(timer{at, p, kind, p.epoch})
}

// pulled returns the instant at which all images of the pod are on its node. A pull that has begun
// for another pod is shared.
func (t *timers) pulled(now time.Duration, p *Pod) time.Duration {
	end := now
	if t.model.Bandwidth <= 0 {
		return end
	}
	for _, image := range p.Shape.Images {
		took := t.model.pull(image)
		if _, has := p.Node.Images[image]; has || took == 0 {
			continue
		}
		key := pullKey{p.Node, image}
		if _, begun := t.pulls[key]; !begun {
			t.pulls[key] = now + took
		}
		end = max(end, t.pulls[key])
	}
	return end
}

func (t *timers) Evict(now time.Duration, p *Pod, grace time.Duration) error {
	if !p.Node.Ready {
		return nil // the pod ends when the node returns
	}
	p.epoch++
	if p.Phase != Running {
		t.push(p, Ended, now)
		return nil
	}
	end := now + min(t.model.Stop, grace)
	if p.Work > 0 { // the work may end before
		end = min(end, p.Started+p.Work)
	}
	t.push(p, Ended, end)
	return nil
}

func (t *timers) Lose(_ time.Duration, n *Node) error {
	for _, p := range n.Pods {
		p.epoch++
	}
	return nil
}

func (t *timers) Return(now time.Duration, n *Node) error {
	for _, p := range n.Pods {
		switch {
		case p.Bound == Never: // waits for Permit
		case p.evicting:
			t.push(p, Ended, now)
		default:
			t.push(p, Pulled, t.pulled(now, p))
		}
	}
	return nil
}

func (t *timers) Next(until time.Duration) (Event, bool, error) {
	for t.queue.len() > 0 && t.queue.top().at <= until {
		e := t.queue.pop()
		p := e.pod
		if e.epoch != p.epoch {
			continue
		}
		switch e.kind {
		case Pulled:
			for _, image := range p.Shape.Images {
				if size := t.model.ImageSizes[image]; size > 0 {
					t.snap.AddImage(p.Node, image, size)
				}
			}
			t.push(p, Started, e.at+t.model.Create)
		case Started:
			// A pod with a short life ends before it is ready.
			if ready := e.at + p.Shape.ReadyAfter; p.Work == 0 || p.Shape.ReadyAfter < p.Work {
				t.push(p, ReadyNow, ready)
			} else {
				t.push(p, Ended, e.at+p.Work)
			}
		case ReadyNow:
			if p.Work > 0 {
				t.push(p, Ended, p.Started+p.Work)
			}
		}
		return Event{At: e.at, Kind: e.kind, Pod: p, Node: p.Node}, true, nil
	}
	return Event{}, false, nil
}
