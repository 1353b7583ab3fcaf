// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/internal/quantities"
)

// Rank returns the pods in the order of their eviction for a signal, the first victim first:
//
//   - memory and disks: pods with more usage than requested, then lower priority, then the larger
//     difference between usage and request
//   - inodes: lower priority, then more inodes
//   - process IDs: lower priority, then more processes
//
// A pod that was not measured counts as a pod within its request, and comes last among pods of its
// priority. Pods that are equal in all of this are ordered by age, the youngest first, then by UID.
// Critical pods are in the result; see Victim.
func Rank(s Signal, l Layout, all []Usage) []Usage {
	keys := make([]rankKey, len(all))
	for i := range all {
		keys[i] = keyOf(s, l, &all[i])
	}
	slices.SortFunc(keys, func(a, b rankKey) int {
		return cmp.Or(
			-compareBool(a.exceeds, b.exceeds), cmp.Compare(a.priority, b.priority), -compareBool(a.usage.Known, b.usage.Known),
			cmp.Compare(b.excess, a.excess), b.pod().CreationTimestamp.Compare(a.pod().CreationTimestamp.Time), cmp.Compare(a.pod().UID, b.pod().UID),
		)
	})
	ranked := make([]Usage, len(keys))
	for i, k := range keys {
		ranked[i] = *k.usage
	}
	return ranked
}

// rankKey is the place of a pod in the order.
type rankKey struct {
	usage    *Usage
	exceeds  bool // uses more than requested
	priority int32
	excess   int64 // usage minus request
}

func (k rankKey) pod() *v1.Pod { return k.usage.Pod }

func keyOf(s Signal, l Layout, u *Usage) rankKey {
	k := rankKey{usage: u, priority: podfacts.Priority(u.Pod)}
	if !u.Known {
		return k
	}
	name := s.Resource()
	switch name {
	case resourcePIDs:
		k.excess = u.Processes
		return k
	case resourceInodes:
		k.excess = u.disk(l.parts(s)).Inodes
		return k
	case v1.ResourceMemory:
		k.excess = u.Memory
	default:
		k.excess = u.disk(l.parts(s)).Bytes
	}
	k.excess -= quantities.Value(podresources.Requests(u.Pod)[name])
	k.exceeds = k.excess > 0
	return k
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
