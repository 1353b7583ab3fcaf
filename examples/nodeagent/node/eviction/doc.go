// SPDX-License-Identifier: Apache-2.0

// Package eviction protects a node whose memory, disk space, inodes or process IDs run out: it frees
// disk space, ends pods, and refuses new ones. Package pressure makes the decisions.
//
//	manager, err := eviction.New(eviction.Options{
//		Policy:   pressure.Policy{Thresholds: thresholds, Hold: pressure.DefaultHold},
//		Observer: usage,  // measures the node, as package nodestats/signals does
//		Wake:     stalls, // optional, of package stall
//	})
//	if err != nil {
//		return err
//	}
//	options.Features = func(h *feature.Host) []feature.Feature {
//		return []feature.Feature{manager.Feature(h, eviction.HostOptions{NodeName: "edge-1"})}
//	}
//
// A node without the feature evicts no pod, and admits pods under pressure.
//
// # A pass
//
// Every ten seconds, and after Options.Wake, the manager measures the node if there are thresholds.
// Pods are measured only if a pod has a limit of local storage, or if a threshold is starved: its
// signal has been below the threshold for the grace of the threshold.
//
//	measure ─▶ conditions ─▶ limits of pods ─▶ starved? ─▶ free disk space ─▶ measure ─▶ rank ─▶ evict one pod
//	                            │ exceeded                                       │ relieved
//	                            └─▶ evict these pods                             └─▶ end of the pass
//
// After an eviction the manager evicts no other pod for a threshold until the pod has ended, its
// volumes are unmounted, and the next pass can remove its containers. The manager waits for the
// containers at most 1.5 times the grace period, or ten seconds if that is longer, and then for the
// volumes at most 30 seconds.
//
// # Bounds
//
// A measurement may take ten seconds, and the reclaim steps of a pass a minute. A call that takes
// longer ends the pass. No pod is evicted without measurements.
//
// # Goroutines
//
// Run is a single loop, so passes do not overlap. A wake-up only starts a pass earlier.
//
// # Differences from the kubelet (1.36)
//
//   - No pass waits for the end of a pod. While a pod ends, the manager still updates conditions
//     and enforces limits, and a hard threshold shortens the grace period of a pod that was evicted
//     for a soft threshold (123872).
//   - Pressure stall information may wake the manager. The kubelet waits for the next ten seconds on
//     cgroup version 2 (106331).
//   - Pods are measured on demand, and not every ten seconds.
//   - The event EvictionThresholdMet is recorded when a threshold becomes starved and at each
//     eviction, and not in each pass.
package eviction
