// SPDX-License-Identifier: Apache-2.0

package statusmanager

import "time"

// patienceShare: a request is overdue after RequestTimeout divided by patienceShare.
const patienceShare = 20

// reserveShare: one in reserveShare workers is reserved for good pods while a troubled pod has a
// request in flight.
const reserveShare = 5

// lane separates pods by the expected cost of their requests.
type lane uint8

const (
	// laneGood: the pod has news, and its last request was answered in time without a failure.
	laneGood lane = iota
	// laneNew: the pod has news, and no finished request yet.
	laneNew
	// laneTroubled: the pod's last request failed or was overdue, or content already sent must be
	// sent again.
	laneTroubled

	laneCount = 3
)

// pace is how long the last request of a pod took.
type pace uint8

const (
	// paceUnknown: no request has ended.
	paceUnknown pace = iota
	// paceQuick: the request ended before becoming overdue.
	paceQuick
	// paceSlow: the request was overdue when it ended.
	paceSlow
)

// paceOf returns the pace of a request with the given duration.
func paceOf(took, patience time.Duration) pace {
	if took < patience {
		return paceQuick
	}
	return paceSlow
}

// lanes hold the pods to write now, each lane in the order of its queue.
//
//   - Good and new pods take turns, and go before troubled ones. If good and new pods keep the
//     workers busy, troubled pods get one turn in agedShare once the oldest troubled pod has waited
//     for ageing.
//   - Good pods may use every worker, and new ones as long as no troubled pod has a request in
//     flight. New and troubled pods together leave one in reserveShare workers to good pods.
//   - Troubled pods use at most half of the workers, and one in agedShare while other pods wait,
//     but always at least one.
//
// Invariant: inFlight adds up to at most workers.
type lanes struct {
	workers  int
	queues   [laneCount]queue
	inFlight [laneCount]int
	turns    int
	// newNext: if both a good and a new pod wait, the new pod is next.
	newNext bool
}

func newLanes(workers int) lanes {
	l := lanes{workers: workers}
	for i := range l.queues {
		l.queues[i].ageing = ageing
	}
	return l
}

// push adds t to a lane, or moves t to the lane. Within its lane t moves up if class is more urgent
// than its present class.
func (l *lanes) push(t *ticket, in lane, class Class, now time.Time) {
	since := now
	if t.queued && t.lane != in {
		since = t.since
		l.remove(t)
	}
	t.lane = in
	l.queues[in].push(t, class, since)
}

// remove removes t, if present.
func (l *lanes) remove(t *ticket) { l.queues[t.lane].remove(t) }

// pop removes and returns the next ticket, and counts a request in flight for its lane; nil if no
// pod may be written now.
func (l *lanes) pop(now time.Time) *ticket {
	in, ok := l.turn(now)
	if !ok {
		return nil
	}
	l.inFlight[in]++
	return l.queues[in].pop(now)
}

// turn returns the next lane; false if no pod may be written now.
func (l *lanes) turn(now time.Time) (in lane, ok bool) {
	troubled := l.ready(laneTroubled)
	in, ok = l.untroubled()
	switch {
	case !ok:
		return laneTroubled, troubled
	case !troubled || now.Sub(l.queues[laneTroubled].oldest()) < l.queues[laneTroubled].ageing:
		return in, true
	}
	l.turns++
	if l.turns%agedShare == 0 {
		return laneTroubled, true
	}
	return in, true
}

// untroubled returns the next lane among good and new pods.
func (l *lanes) untroubled() (in lane, ok bool) {
	good, unknown := l.ready(laneGood), l.ready(laneNew)
	if good && unknown {
		l.newNext = !l.newNext
		unknown = !l.newNext
	}
	if unknown {
		return laneNew, true
	}
	return laneGood, good
}

// ready reports whether a pod waits in a lane and may be written now.
func (l *lanes) ready(in lane) bool {
	switch {
	case l.queues[in].len() == 0 || l.busy() >= l.workers:
		return false
	case in == laneGood:
		return true
	case in == laneNew && l.inFlight[laneTroubled] == 0:
		return true
	case l.inFlight[laneNew]+l.inFlight[laneTroubled] >= l.workers-l.workers/reserveShare:
		return false
	}
	return in == laneNew || l.roomForTrouble()
}

// roomForTrouble reports whether the share of troubled pods permits another request.
func (l *lanes) roomForTrouble() bool {
	share := 2
	if l.queues[laneGood].len()+l.queues[laneNew].len() > 0 {
		share = agedShare
	}
	return l.inFlight[laneTroubled] < max(1, l.workers/share)
}

// overdue records that a request of t is overdue, and reports whether the request may continue: as
// a request of a troubled pod, if the share permits.
func (l *lanes) overdue(t *ticket) bool {
	switch {
	case t.lane == laneTroubled:
		return true
	case !l.roomForTrouble():
		return false
	}
	l.inFlight[t.lane]--
	t.lane = laneTroubled
	l.inFlight[laneTroubled]++
	return true
}

// landed records the end of a request from the lane in.
func (l *lanes) landed(in lane) { l.inFlight[in]-- }

// busy is how many pods have a request in flight.
func (l *lanes) busy() (n int) {
	for _, flying := range l.inFlight {
		n += flying
	}
	return n
}

// queued is how many pods of a class wait.
func (l *lanes) queued(c Class) (n int) {
	for i := range l.queues {
		n += l.queues[i].lists[c].len
	}
	return n
}
