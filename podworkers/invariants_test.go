// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"slices"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// check looks at every UID while nothing moves.
func (s *script) check() {
	running := s.workers.mu.drive != nil
	for _, uid := range s.uids {
		known, ok := s.workers.Info(uid)
		o := s.seen[uid]
		switch {
		case !ok && o.known:
			s.forget(uid) // An orphan that was ended.
			continue
		case !ok:
			continue
		}
		o.known = true
		s.checkFacts(uid, known)
		s.checkCourse(uid, known)
		s.checkPredicates(uid, known)
		s.checkChannels(uid, known)
		if running {
			s.checkProgress(uid, known)
		}
	}
	s.checkKeys()
}

// checkFacts: the fields of WorkerInfo are consistent, and the grace period never grows.
func (s *script) checkFacts(uid types.UID, i WorkerInfo) {
	o := s.seen[uid]
	c := s.chaos.look(uid)
	if i.Busy != (c.inFlight != callNone) {
		s.chaos.blame("%s: busy is %t during %s", uid, i.Busy, c.inFlight)
	}
	if o.life != c.life {
		o.life, o.grace = c.life, 0
	}
	if (i.GracePeriodSeconds > 0) != (i.State != StateSync) || o.grace != 0 && i.GracePeriodSeconds > o.grace {
		s.chaos.blame("%s: grace period %d in state %s, before %d", uid, i.GracePeriodSeconds, i.State, o.grace)
	}
	o.grace = i.GracePeriodSeconds
	if i.TerminatingAt.IsZero() != (i.State == StateSync) || i.TerminatedAt.IsZero() != (i.State != StateTerminated) {
		s.chaos.blame("%s: state %s, terminating at %s, terminated at %s", uid, i.State, i.TerminatingAt, i.TerminatedAt)
	}
}

// checkCourse: rule 2, every pod passed to the syncer is cleaned up in the end.
func (s *script) checkCourse(uid types.UID, i WorkerInfo) {
	c := s.chaos.look(uid)
	if i.Finished && c.stage != callNone && c.done != callTerminatedPod {
		s.chaos.blame("%s: finished after %s", uid, c.stage)
	}
}

// checkPredicates: each follows from the ones before it in a pod's life.
func (s *script) checkPredicates(uid types.UID, i WorkerInfo) {
	w := s.workers
	life := []bool{
		w.IsPodTerminationRequested(uid), w.ShouldPodContainersBeTerminating(uid), w.ShouldPodRuntimeBeRemoved(uid),
		w.ShouldPodBeFinished(uid),
	}
	for n := 1; n < len(life); n++ {
		if life[n] && !life[n-1] {
			s.chaos.blame("%s: predicates out of order: %v", uid, life)
		}
	}
	if w.ShouldPodContainersBeTerminating(uid) && s.chaos.look(uid).inFlight == callSyncPod {
		s.chaos.blame("%s: containers should be terminating while SyncPod runs", uid)
	}
	terminated := i.State == StateTerminated
	if w.IsPodKnownTerminated(uid) != terminated || w.CouldHaveRunningContainers(uid) == terminated ||
		w.ShouldPodContentBeRemoved(uid) != (terminated && (i.Evicted || i.Deleted)) {
		s.chaos.blame("%s: predicates do not fit state %s", uid, i.State)
	}
}

// checkChannels: rule 7.
func (s *script) checkChannels(uid types.UID, i WorkerInfo) {
	o := s.seen[uid]
	if closed(s.workers.Terminated(uid)) != (i.State == StateTerminated) {
		s.chaos.blame("%s: Terminated does not fit state %s", uid, i.State)
	}
	o.channels = slices.DeleteFunc(o.channels, closed)
	if i.State == StateTerminated && len(o.channels) > 0 {
		s.chaos.blame("%s is terminated, but an earlier channel is open", uid)
	}
}

// checkProgress: a pod at rest has been told the newest configuration and has a next step.
func (s *script) checkProgress(uid types.UID, i WorkerInfo) {
	waiting := i.State == StateSync && !i.Started
	if i.Busy || waiting {
		return
	}
	if o := s.seen[uid]; o.latest != "" && !i.Finished && i.HasConfig && s.chaos.look(uid).version != o.latest {
		s.chaos.blame("%s: version %s was sent, %s delivered", uid, o.latest, s.chaos.look(uid).version)
	}
	if i.NextSync.IsZero() != i.Finished {
		s.chaos.blame("%s: next call at %s in state %s, finished %t", uid, i.NextSync, i.State, i.Finished)
	}
	if !i.NextSync.IsZero() && !i.NextSync.After(time.Now()) {
		s.chaos.blame("%s: a call is overdue", uid)
	}
}

// checkKeys: rule 8. c, d and e share one key.
func (s *script) checkKeys() {
	var holders, waiting []types.UID
	for uid, i := range s.workers.All() { // In the order of arrival.
		switch {
		case !i.Exclusive || i.Finished:
		case i.Started:
			holders = append(holders, uid)
			if len(waiting) > 0 {
				s.chaos.blame("%s started before %v", uid, waiting)
			}
		case i.State == StateSync:
			waiting = append(waiting, uid)
		}
	}
	if len(holders) > 1 || len(holders) == 0 && len(waiting) > 0 {
		s.chaos.blame("key held by %v, waiting %v", holders, waiting)
	}
}

// drain ends everything with a healthy syncer; nothing may be left.
func (s *script) drain() {
	s.chaos.healthy.Store(true)
	s.syncKnown(nil)
	time.Sleep(time.Hour)
	synctest.Wait()
	s.check()
	s.syncKnown(nil)
	if left := s.workers.snapshot(); len(left) > 0 {
		s.chaos.blame("left after everything ended: %+v", left)
	}
	if len(s.workers.mu.keys) > 0 || len(s.workers.mu.unknown) > 0 {
		s.chaos.blame("keys %v, unknown %v left", s.workers.mu.keys, s.workers.mu.unknown)
	}
}

// afterwards checks rule 13 once Run has returned.
func (s *script) afterwards() {
	for _, uid := range s.uids {
		if kind := s.chaos.look(uid).inFlight; kind != callNone {
			s.chaos.blame("%s: Run returned during %s", uid, kind)
		}
		if i, ok := s.workers.Info(uid); ok {
			if i.Busy || !i.NextSync.IsZero() {
				s.chaos.blame("%s: busy %t, next call %s after Run", uid, i.Busy, i.NextSync)
			}
			s.checkChannels(uid, i)
		}
	}
	if err := s.workers.UpdatePod(Update{Pod: testPod("a")}); err != ErrStopped {
		s.chaos.blame("UpdatePod after Run: %v", err)
	}
	time.Sleep(time.Hour)
	synctest.Wait()
}
