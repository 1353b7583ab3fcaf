// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"
)

// Backend runs bound pods. Its methods are called by a single goroutine, at instants that do not
// decrease.
type Backend interface {
	// Name is the name for reports.
	Name() string
	// Bind starts a pod on Pod.Node.
	Bind(now time.Duration, p *Pod) error
	// Evict ends a bound pod. Its event Ended follows, at the latest after the grace period.
	Evict(now time.Duration, p *Pod, grace time.Duration) error
	// Lose makes a node fail: its containers end, and events come only after Return. Return boots
	// the node again, and the pods still bound to it start from the beginning.
	Lose(now time.Duration, n *Node) error
	Return(now time.Duration, n *Node) error
	// Next returns the next event up to the instant until, in order of time and then of Pod.UID.
	// If it returns false, the time is until.
	Next(until time.Duration) (Event, bool, error)
}

// BackendInput has the parts of the simulation that a Backend uses.
type BackendInput struct {
	Snapshot *Snapshot
	Model    Model
}

// Model are the durations of the start and the end of a pod. The zero Model takes no time.
type Model struct {
	// Source says where the numbers come from, for the head of reports.
	Source string
	// Bind is the time from a decision to the node's knowledge of the pod.
	Bind time.Duration
	// Bandwidth of pulls in bytes per second. 0: images are present.
	Bandwidth int64
	// ImageSizes in bytes. Other images are present.
	ImageSizes map[string]int64
	// Create is the time to create sandbox and containers.
	Create time.Duration
	// Stop is the time from SIGTERM to the exit. Defaults to an immediate exit.
	Stop time.Duration
}

// pull returns the duration of a pull.
func (m *Model) pull(image string) time.Duration {
	size := m.ImageSizes[image]
	if m.Bandwidth <= 0 || size == 0 {
		return 0
	}
	return time.Duration(float64(size) / float64(m.Bandwidth) * float64(time.Second))
}

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events. A backend yields Pulled to Ended.
const (
	Submitted EventKind = iota
	Refused             // a cycle found no node
	Bound
	Pulled // all images are present
	Started
	ReadyNow
	Ended
	Evicting // an eviction has begun
	Dropped  // the pod is given up
	NodeLost
	NodeBack
	NodeTainted
)

var kindNames = [...]string{"submitted", "refused", "bound", "pulled", "started", "ready", "ended", "evicting", "dropped", "node-lost", "node-back", "node-tainted"}

// String returns the name of the kind in the journal.
func (k EventKind) String() string { return kindNames[k] }

// Event is something that happens in a simulation.
type Event struct {
	At   time.Duration
	Kind EventKind
	Pod  *Pod  // nil for events of nodes
	Node *Node // may be nil
	// Text is the reason, for people.
	Text string
}
