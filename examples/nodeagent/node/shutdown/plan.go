// SPDX-License-Identifier: Apache-2.0

package shutdown

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/sorted"
)

// Class gives pods of a range of priorities their time to end at shutdown. Classes of lower
// priority stop first. A Class corresponds to an entry of the kubelet's
// shutdownGracePeriodByPodPriority (KEP-2712, as in 1.36).
type Class struct {
	// Priority is the lowest priority in the class. The class ends below the Priority of the next
	// higher class. The lowest class also contains all pods below its Priority.
	Priority int32
	// Grace is the time for the whole class, at least a second. A pod with a shorter grace period
	// keeps its own.
	Grace time.Duration
}

// Lowest priorities of the two priority classes that exist in every cluster.
const (
	systemCritical     = podfacts.CriticalPriority
	systemNodeCritical = 2_000_001_000
)

// GracePeriods returns the classes that the kubelet derives from shutdownGracePeriod and
// shutdownGracePeriodCriticalPods (KEP-2000, as in 1.36). Critical pods get the last part of total,
// and other pods get the time before. If critical is 0, all pods are in one class. If both are 0,
// there is no class.
func GracePeriods(total, critical time.Duration) ([]Class, error) {
	switch {
	case total == 0 && critical == 0:
		return nil, nil
	case total < time.Second:
		return nil, fmt.Errorf("shutdown grace period %s: want a second or more", total)
	case critical == 0:
		return []Class{{Priority: math.MinInt32, Grace: total}}, nil
	case critical < time.Second || total-critical < time.Second:
		return nil, fmt.Errorf("shutdown grace period %s, of which %s for critical pods: want a second or more for these and for the others", total, critical)
	}
	return []Class{{Priority: math.MinInt32, Grace: total - critical}, {Priority: systemCritical, Grace: critical}}, nil
}

// Validate returns an error for the first class with settings rejected by the kubelet.
func Validate(classes []Class) error {
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

// timeOf returns the sum of the classes' times.
func timeOf(classes []Class) (sum time.Duration) {
	for _, c := range classes {
		sum += c.Grace
	}
	return sum
}

// group is a set of pods that are stopped at the same time, within limit.
type group struct {
	limit time.Duration
	stops []stop
}

// stop is the planned stop of one pod. Of a pod that no source lists, only the UID is known.
type stop struct {
	uid   types.UID
	pod   *v1.Pod // nil: no source lists the pod
	grace int64   // in seconds, at least 1
}

// plan returns the groups in stop order, without empty groups. Strangers, the pods without a
// source, are in the group of the lowest class.
func plan(classes []Class, pods []*v1.Pod, strangers []types.UID) []group {
	classes = sorted.Collect(slices.Values(classes), func(a, b Class) int { return cmp.Compare(a.Priority, b.Priority) })
	groups := make([]group, len(classes))
	for i, c := range classes {
		groups[i].limit = c.Grace
	}
	for _, pod := range pods {
		at, exact := slices.BinarySearchFunc(classes, priorityOf(pod), func(c Class, p int32) int { return cmp.Compare(c.Priority, p) })
		if !exact {
			at = max(at-1, 0)
		}
		g := &groups[at]
		g.stops = append(g.stops, stop{uid: pod.UID, pod: pod, grace: graceWithin(g.limit, pod.Spec.TerminationGracePeriodSeconds)})
	}
	for _, uid := range strangers {
		g := &groups[0]
		g.stops = append(g.stops, stop{uid: uid, grace: graceWithin(g.limit, nil)})
	}
	return slices.DeleteFunc(groups, func(g group) bool { return len(g.stops) == 0 })
}

// killMargin is the part of a group's time reserved for pods that ignore the stop signal: within it
// they are killed, and their end is observed.
const killMargin = time.Second

// graceWithin returns the grace period, in seconds, of a pod in a group with this limit. own may be
// nil.
func graceWithin(limit time.Duration, own *int64) int64 {
	grace := int64((limit - killMargin) / time.Second)
	if own != nil {
		grace = min(grace, *own)
	}
	return max(grace, 1)
}

// priorityOf returns a pod's priority. The API server does not resolve the priorityClassName of a
// static pod, so the two classes that exist in every cluster are resolved here.
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

// errOutOfTime is the cause of a stop's context when the time of the pod's group is over.
var errOutOfTime = errors.New("the time for its end is over")
