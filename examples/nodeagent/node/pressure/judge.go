// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"cmp"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/retry"
)

// Policy says when pods are evicted.
type Policy struct {
	Thresholds []Threshold
	// Hold is the time for which a condition stays after its last threshold was met. 0: a condition
	// ends with its thresholds. The kubelet's default is DefaultHold.
	Hold time.Duration
	// MaxGrace limits the grace period of pods evicted for soft thresholds. Negative: the pod's own
	// grace period counts. The kubelet's default of 0 stands for a second.
	MaxGrace time.Duration
}

// State is the knowledge of one pass about the passes before. The zero value is the state of the
// first pass. A State is immutable.
type State struct {
	since  map[Threshold]time.Time            // met without a break since
	active map[Threshold]bool                 // met for their Grace in the last pass
	seen   map[v1.NodeConditionType]time.Time // the last pass with a met threshold
	read   map[Signal]time.Time               // time of the last reading
}

// Pass is the result of one pass.
type Pass struct {
	// Conditions are the node's conditions that are true, in the order of their names.
	Conditions []v1.NodeConditionType
	// Starved are the thresholds that allow an eviction, the most urgent first: memory, then hard
	// thresholds, then the smallest ratio of the reading to the threshold.
	Starved []Threshold
	// Next is the time at which a later pass with equal readings would have another result. Zero: at
	// no time.
	Next time.Time
}

// Judge returns the result of a pass at the time now, and the state for the next pass. A threshold
// without a reading is skipped. A threshold is in Starved only if its reading is newer than the
// reading of the pass before, so that one measurement never leads to two evictions.
func (p Policy) Judge(s State, readings map[Signal]Reading, now time.Time) (State, Pass) {
	next := State{
		since: map[Threshold]time.Time{}, active: map[Threshold]bool{},
		seen: maps.Clone(s.seen), read: map[Signal]time.Time{},
	}
	if next.seen == nil {
		next.seen = map[v1.NodeConditionType]time.Time{}
	}
	var pass Pass
	for _, t := range p.Thresholds {
		r, known := readings[t.Signal]
		if !known {
			continue
		}
		next.read[t.Signal] = r.At
		if !t.isMet(r, s.active) {
			continue
		}
		next.seen[t.Signal.Condition()] = now
		since, met := s.since[t]
		if !met {
			since = now
		}
		next.since[t] = since
		if now.Sub(since) < t.Grace {
			pass.Next = retry.Earlier(pass.Next, since.Add(t.Grace))
			continue
		}
		next.active[t] = true
		if last, read := s.read[t.Signal]; !read || r.At.IsZero() || r.At.After(last) {
			pass.Starved = append(pass.Starved, t)
		}
	}
	slices.SortFunc(pass.Starved, func(a, b Threshold) int { return compareUrgency(a, b, readings) })
	for _, c := range Conditions() {
		last, seen := next.seen[c]
		switch {
		case !seen:
		case last.Equal(now):
			pass.Conditions = append(pass.Conditions, c)
		case now.Sub(last) < p.Hold:
			pass.Conditions = append(pass.Conditions, c)
			pass.Next = retry.Earlier(pass.Next, last.Add(p.Hold))
		default:
			delete(next.seen, c)
		}
	}
	return next, pass
}

// compareUrgency orders thresholds, the most urgent first. Thresholds of a policy are never equal.
func compareUrgency(a, b Threshold, readings map[Signal]Reading) int {
	rank := func(t Threshold) int {
		n := 0
		if t.Signal.Resource() != v1.ResourceMemory {
			n += 2
		}
		if !t.IsHard() {
			n++
		}
		return n
	}
	ratio := func(t Threshold) float64 {
		r := readings[t.Signal]
		return float64(r.Available) / float64(max(t.Below.Of(r.Capacity), 1))
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(ratio(a), ratio(b)), cmp.Compare(a.Signal, b.Signal))
}

// IsRelieved reports whether a reading has reached a threshold including its Reclaim. A signal
// without a reading is not relieved.
func (t Threshold) IsRelieved(readings map[Signal]Reading) bool {
	r, known := readings[t.Signal]
	return known && !t.isMet(r, map[Threshold]bool{t: true})
}
