// SPDX-License-Identifier: Apache-2.0

package prober

import "slices"

// mostEarlier is how many IDs of earlier instances are remembered for a container.
const mostEarlier = 16

// source is how an instance became known.
type source uint8

const (
	sourceStart source = iota // from Start: a call may arrive arbitrarily late
	sourceSync                // from a sync: the next sync corrects the last
)

// past holds the known earlier instances of a container.
type past struct {
	ids     []string // the latest last
	doubted string   // the ID in ids named by the last sync
}

// outdated reports whether id is an earlier instance of the container, so that the call is late.
// Two consecutive syncs with the same instance are accepted nevertheless, because the earlier calls
// came in the wrong order.
func (l *past) outdated(id string, from source) bool {
	switch {
	case !slices.Contains(l.ids, id):
		return false
	case from == sourceStart:
		return true
	}
	again := l.doubted == id
	l.doubted = id
	return !again
}

// confirm ends the doubts, because a sync named the present instance.
func (l *past) confirm() { l.doubted = "" }

// follow records that instance id followed instance before. If id was considered an earlier
// instance, the order of all others is unknown as well, and follow clears the past.
func (l *past) follow(before, id string) {
	if slices.Contains(l.ids, id) {
		*l = past{}
		return
	}
	l.ids = append(l.ids, before)
	l.ids = l.ids[max(0, len(l.ids)-mostEarlier):]
}

// past returns the past of a container and creates a missing past.
func (r *podRecord) past(container string) *past {
	l := r.pasts[container]
	if l == nil {
		if r.pasts == nil {
			r.pasts = map[string]*past{}
		}
		l = &past{}
		r.pasts[container] = l
	}
	return l
}
