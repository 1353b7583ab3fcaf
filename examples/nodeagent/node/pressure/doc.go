// SPDX-License-Identifier: Apache-2.0

// Package pressure decides which pods a node evicts when memory, disk space, inodes or process IDs
// run out. The package is pure: no lock, no clock, no I/O. Package eviction acts on the decisions.
//
//	thresholds, err := pressure.Parse(pressure.Settings{Hard: pressure.DefaultHard()})
//	if err != nil {
//		return err
//	}
//	policy := pressure.Policy{Thresholds: thresholds, Hold: pressure.DefaultHold}
//	state, pass := policy.Judge(state, readings, time.Now())
//	for _, t := range pass.Starved {
//		… // layout.Reclaims(t.Signal), then measure again: t.IsRelieved
//		ranked := pressure.Rank(t.Signal, layout, usages)
//		eviction, found := policy.Victim(t, layout, ranked, readings[t.Signal])
//	}
//
// The caller
//  1. calls Judge with new readings about every ten seconds, and at Pass.Next.
//  2. frees space by the steps of Layout.Reclaims before it ends a pod for a disk or for inodes.
//  3. ends one pod at a time, and waits for its end before it calls Victim again.
//  4. calls OverLimit with each measurement of the pods.
//  5. refuses new pods for which Refusal returns a message.
//
// # Life of a threshold
//
//	            below             for Grace
//	(not met) ─────────▶ met ─────────────────▶ starved ──▶ reclaim, then evict
//	    ▲                 │ reading ≥ Below        │ reading ≥ Below + Reclaim
//	    └─────────────────┴────────────────────────┘
//
// The condition of the node is true from the first met reading until Policy.Hold after the last.
//
// # Differences from the kubelet (1.36)
//
//   - Starved thresholds have a total order. In the kubelet the order of all but memory is random.
//   - Pods without a measurement come last in their priority, not first (123591).
//   - For inodes the third key is the number of inodes. The kubelet subtracts the request of
//     ephemeral storage in bytes.
//   - The layer of a container counts for its ephemeral-storage limit, also if images have a file
//     system of their own (139339).
//   - If images are on a separate file system, ended containers are removed for nodefs, because of
//     their logs (129616).
//   - A negative evictionMaxPodGracePeriod stands for the pod's own grace period, as documented
//     (118172).
//   - After the reclaim steps the pass ends if the starved threshold is relieved. The kubelet goes on
//     if any other threshold is met.
//   - Pod-level memory requests are counted in the ranking, but the message names containers only.
package pressure
