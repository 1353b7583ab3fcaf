// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
	"github.com/keelson-dev/keelson/internal/podfacts"
)

// victim is an evicted pod that has not ended.
type victim struct {
	eviction pressure.Eviction
	isHard   bool // its grace period is as short as possible
	done     <-chan struct{}
	overdue  time.Time // from then on the containers take too long; zero: that was reported
	until    time.Time // from then on the manager does not wait any more
}

// isAwaited reports whether no other pod is evicted before this one has ended.
func (v victim) isAwaited() bool { return time.Now().Before(v.until) }

// evict ends a pod.
func (m *Manager) evict(node Node, e pressure.Eviction, isHard bool) {
	m.opts.Logger.Warn("pod is evicted", zap.String("pod", e.Pod.Namespace+"/"+e.Pod.Name), zap.String("cause", e.Cause), zap.String("message", e.Message))
	m.victims = append(m.victims, newVictim(e, isHard, node.Evict(e)))
	if told := m.opts.Hooks.Evicted; told != nil {
		told(e)
	}
}

func newVictim(e pressure.Eviction, isHard bool, done <-chan struct{}) victim {
	patience := max(minKillPatience, graceOf(e)*3/2)
	overdue := time.Now().Add(patience)
	return victim{eviction: e, isHard: isHard, done: done, overdue: overdue, until: overdue.Add(cleanPatience)}
}

// graceOf returns the grace period of an evicted pod.
func graceOf(e pressure.Eviction) time.Duration {
	seconds := podfacts.GracePeriodSeconds(e.Pod)
	if e.Grace != nil {
		seconds = *e.Grace
	}
	return time.Duration(seconds) * time.Second
}

// forgetEnded drops the victims that have ended, and reports those that are overdue.
func (m *Manager) forgetEnded(now time.Time) {
	m.victims = slices.DeleteFunc(m.victims, func(v victim) bool {
		select {
		case <-v.done:
			return true
		default:
			return false
		}
	})
	for i := range m.victims {
		v := &m.victims[i]
		if v.overdue.IsZero() || now.Before(v.overdue) {
			continue
		}
		v.overdue = time.Time{}
		m.opts.Logger.Warn("an evicted pod does not end", zap.String("pod", v.eviction.Pod.Namespace+"/"+v.eviction.Pod.Name))
		if told := m.opts.Hooks.Overdue; told != nil {
			told(v.eviction)
		}
	}
}

// awaits reports whether the manager still waits for the end of an earlier victim. A hard threshold
// shortens the grace period of a pod that was evicted for a soft threshold.
func (m *Manager) awaits(node Node, t pressure.Threshold) (waits bool) {
	for i := range m.victims {
		v := &m.victims[i]
		if !v.isAwaited() {
			continue
		}
		waits = true
		if t.IsHard() && !v.isHard {
			e := v.eviction
			e.Grace = new(int64(1))
			*v = newVictim(e, true, node.Evict(e))
		}
	}
	return waits
}
