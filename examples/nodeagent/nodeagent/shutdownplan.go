// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ShutdownClass is how long pods of one range of priorities may take to end when
// the agent does, and its place in the order: lower priorities end first. It is an
// entry of the kubelet's shutdownGracePeriodByPodPriority (KEP-2712, as in 1.36).
type ShutdownClass struct {
	// Priority is the lowest of the class, which reaches up to the next class's.
	// What is below the lowest class belongs to that one.
	Priority int32
	// Grace is all the time that the class has, at least a second. A pod whose own
	// grace period is shorter has no more than that.
	Grace time.Duration
}

// Priorities of the two classes that every cluster has, and where they begin.
const (
	systemCritical     = 2_000_000_000
	systemNodeCritical = 2_000_001_000
)

// ShutdownGracePeriods are the classes that the kubelet makes of its settings
// shutdownGracePeriod and shutdownGracePeriodCriticalPods (KEP-2000, as in 1.36):
// of total, critical pods have the last part, the others what comes before. Without
// a part for critical pods all pods are one class, and without a total there is
// none.
func ShutdownGracePeriods(total, critical time.Duration) ([]ShutdownClass, error) {
	switch {
	case total == 0 && critical == 0:
		return nil, nil
	case total < time.Second:
		return nil, fmt.Errorf("shutdown grace period %s: want a second or more", total)
	case critical == 0:
		return []ShutdownClass{{Priority: math.MinInt32, Grace: total}}, nil
	case critical < time.Second || total-critical < time.Second:
		return nil, fmt.Errorf("shutdown grace period %s, of which %s for critical pods: want a second or more for these and for the others", total, critical)
	}
	return []ShutdownClass{{Priority: math.MinInt32, Grace: total - critical}, {Priority: systemCritical, Grace: critical}}, nil
}

func validateClasses(classes []ShutdownClass) error {
	seen := make(map[int32]bool, len(classes))
	for _, c := range classes {
		if c.Grace < time.Second {
			return fmt.Errorf("the grace of priority %d is %s: want a second or more", c.Priority, c.Grace)
		}
		if seen[c.Priority] {
			return fmt.Errorf("priority %d is there twice", c.Priority)
		}
		seen[c.Priority] = true
	}
	return nil
}

// shutdownTime is the longest that the classes take together.
func shutdownTime(classes []ShutdownClass) (sum time.Duration) {
	for _, c := range classes {
		sum += c.Grace
	}
	return sum
}

// shutdownGroup are pods that end at the same time, within limit.
type shutdownGroup struct {
	limit time.Duration
	stops []shutdownStop
}

// shutdownStop is one pod that is to end. Of one that no source wants, only the
// UID is known.
type shutdownStop struct {
	uid   types.UID
	pod   *v1.Pod // nil: nobody wants it
	grace int64   // in seconds, at least 1
}

// planShutdown is the order in which pods end: groups one after another, without
// those that nobody belongs to. Strangers, which nobody wants, go first.
func planShutdown(classes []ShutdownClass, pods []*v1.Pod, strangers []types.UID) []shutdownGroup {
	classes = slices.SortedFunc(slices.Values(classes), func(a, b ShutdownClass) int { return cmp.Compare(a.Priority, b.Priority) })
	groups := make([]shutdownGroup, len(classes))
	for i, c := range classes {
		groups[i].limit = c.Grace
	}
	for _, pod := range pods {
		at, exact := slices.BinarySearchFunc(classes, priorityOf(pod), func(c ShutdownClass, p int32) int { return cmp.Compare(c.Priority, p) })
		if !exact {
			at = max(at-1, 0)
		}
		g := &groups[at]
		g.stops = append(g.stops, shutdownStop{uid: pod.UID, pod: pod, grace: graceWithin(g.limit, pod.Spec.TerminationGracePeriodSeconds)})
	}
	for _, uid := range strangers {
		g := &groups[0]
		g.stops = append(g.stops, shutdownStop{uid: uid, grace: graceWithin(g.limit, nil)})
	}
	return slices.DeleteFunc(groups, func(g shutdownGroup) bool { return len(g.stops) == 0 })
}

// killMargin is what a group keeps of its time for those who do not listen: they
// are killed, and seen to have ended, while it lasts.
const killMargin = time.Second

// graceWithin is a pod's grace period in a group with so much time.
func graceWithin(limit time.Duration, own *int64) int64 {
	grace := int64((limit - killMargin) / time.Second)
	if own != nil {
		grace = min(grace, *own)
	}
	return max(grace, 1)
}

// priorityOf is a pod's priority. Nobody has looked up the class of a static pod;
// two of them are the same everywhere.
func priorityOf(pod *v1.Pod) int32 {
	switch {
	case pod.Spec.Priority != nil:
		return *pod.Spec.Priority
	case pod.Spec.PriorityClassName == "system-node-critical":
		return systemNodeCritical
	case pod.Spec.PriorityClassName == "system-cluster-critical":
		return systemCritical
	}
	return 0
}

// errOutOfTime is the cause of the context of a pod's end when its group's time is
// over.
var errOutOfTime = errors.New("the time for its end is over")
