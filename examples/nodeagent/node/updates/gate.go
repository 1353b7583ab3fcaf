// SPDX-License-Identifier: Apache-2.0

package updates

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// Gate says when a version counts as good. The zero value is a gate with the defaults.
type Gate struct {
	// Ready is how long all pods have to be ready without a restart. Defaults to 10 s.
	Ready time.Duration
	// Deadline limits the time from the switch until the gate is passed. Defaults to 5 min.
	Deadline time.Duration
	// Restarts is the number of restarts of containers that a version may have. Defaults to 0.
	Restarts int
}

func (g Gate) withDefaults() Gate {
	g.Ready, g.Deadline = cmp.Or(g.Ready, 10*time.Second), cmp.Or(g.Deadline, 5*time.Minute)
	return g
}

// Health is the judgement of a gate about the version that runs.
type Health struct {
	// Hash is the hash of the judged version.
	Hash string
	// Passed means that the version is good.
	Passed bool
	// Failed is the reason if the version is bad, and Message describes it.
	Failed, Message string
	// Again is the time at which the judgement can change without a new status, zero for never.
	Again time.Time
}

// PodHealth is the part of a pod's statuses that gates need. The zero value is that of a pod
// without a status.
type PodHealth struct {
	allowed map[string]int32 // restart counts of the containers that are no failure; not changed
	counts  map[string]int32 // restart counts in the last status; not changed
	crash   string           // describes the last restart
	ready   time.Time
	stuck   time.Time // since when a container cannot start
	why     string    // the reason of stuck
	details string
	phase   v1.PodPhase
	reason  string // of the phase
	message string
}

// stuckReasons are the reasons of waiting containers that need another manifest or a person.
var stuckReasons = []string{
	"CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "InvalidImageName", "RunContainerError",
}

// stoppedReason is the reason of pods that were stopped because the agent ends, see
// podworkers.Interrupted. The next agent starts the containers again, so the version has not
// failed.
const stoppedReason = "Terminated"

// Observe returns the health after a further status of the pod.
func (h PodHealth) Observe(status *v1.PodStatus, now time.Time) PodHealth {
	h.phase, h.reason, h.message = status.Phase, status.Reason, status.Message
	stuck, first := false, h.counts == nil
	if first {
		h.allowed = map[string]int32{}
	}
	h.counts = map[string]int32{}
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		h.counts[c.Name] = c.RestartCount
		if first {
			h.allowed[c.Name] = c.RestartCount
			if c.State.Running == nil && c.ContainerID != "" {
				h.allowed[c.Name]++ // it ended before, for example with the earlier agent
			}
		}
		if last := c.LastTerminationState.Terminated; last != nil && c.RestartCount > 0 {
			h.crash = fmt.Sprintf("container %q: %s, exit code %d", c.Name, cmp.Or(last.Reason, "terminated"), last.ExitCode)
		}
		if w := c.State.Waiting; w != nil && slices.Contains(stuckReasons, w.Reason) {
			stuck = true
			h.why, h.details = w.Reason, fmt.Sprintf("container %q: %s", c.Name, w.Message)
		}
	}
	if maps.Equal(h.counts, h.allowed) {
		h.counts = h.allowed // one map for both, as long as nothing has restarted
	}
	h.stuck = since(h.stuck, stuck, now)
	h.ready = since(h.ready, podfacts.IsTrue(status.Conditions, v1.PodReady), now)
	return h
}

// again returns the health of an unchanged pod under a new version: restarts and times count from
// now.
func (h PodHealth) again(now time.Time) PodHealth {
	h.allowed = h.counts
	h.ready, h.stuck = since(time.Time{}, !h.ready.IsZero(), now), since(time.Time{}, !h.stuck.IsZero(), now)
	return h
}

// restarts returns the number of restarts since the first status.
func (h PodHealth) restarts() (n int) {
	for name, count := range h.counts {
		n += int(max(0, count-h.allowed[name]))
	}
	return n
}

// since returns the begin of a state: the previous begin, now, or zero if the state does not hold.
func since(begin time.Time, holds bool, now time.Time) time.Time {
	switch {
	case !holds:
		return time.Time{}
	case begin.IsZero():
		return now
	}
	return begin
}

// Judge returns the judgement of the gate about a pod.
func (g Gate) Judge(h PodHealth, now time.Time) Health {
	g = g.withDefaults()
	restarts := h.restarts()
	switch {
	case h.phase == v1.PodFailed && h.reason == stoppedReason:
		return Health{}
	case h.phase == v1.PodFailed:
		return Health{Failed: cmp.Or(h.reason, "PodFailed"), Message: cmp.Or(h.message, "the pod has failed")}
	case h.phase == v1.PodSucceeded:
		return Health{Passed: true}
	case restarts > g.Restarts:
		return Health{Failed: "Restarted", Message: fmt.Sprintf("%d restarts, %d allowed: %s", restarts, g.Restarts, h.crash)}
	case !h.stuck.IsZero() && now.Sub(h.stuck) >= g.Ready:
		return Health{Failed: h.why, Message: h.details}
	case !h.stuck.IsZero():
		return Health{Again: h.stuck.Add(g.Ready)}
	case h.ready.IsZero():
		return Health{}
	case now.Sub(h.ready) >= g.Ready:
		return Health{Passed: true}
	}
	return Health{Again: h.ready.Add(g.Ready)}
}

// JudgeAll returns the judgement about several pods, by their names: the first failure, or passed
// if all have passed.
func (g Gate) JudgeAll(pods map[string]PodHealth, now time.Time) Health {
	all := Health{Passed: len(pods) > 0}
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		h := g.Judge(pods[name], now)
		if h.Failed != "" {
			return Health{Failed: h.Failed, Message: fmt.Sprintf("pod %s: %s", name, h.Message)}
		}
		all.Passed = all.Passed && h.Passed
		if !h.Again.IsZero() && (all.Again.IsZero() || h.Again.Before(all.Again)) {
			all.Again = h.Again
		}
	}
	return all
}
