// SPDX-License-Identifier: Apache-2.0

// Package oomwatch records an event on the node for each process that the kernel kills because the
// machine has no memory left.
//
//	nodeOptions.Features = func(h *feature.Host) []feature.Feature {
//		return []feature.Feature{oomwatch.Feature(h, "gw-17")}
//	}
//
// The event is the kubelet's (1.36): Warning SystemOOM, "System OOM encountered, victim process: NAME,
// pid: N". A process that is killed at the limit of a cgroup is no event of the node: the status of its
// container says OOMKilled.
//
// The function Run of the Feature reads the kernel's log, /dev/kmsg, in its own goroutine. Without
// the permission to read /dev/kmsg, Run logs the error and ends.
//
// # Differences from the kubelet (1.36)
//
//   - Only records of the kernel itself count. The kubelet also believes records by programs with
//     the permission to write to /dev/kmsg.
//   - Records from before the start of the agent are not events.
//   - The kubelet does not start if it cannot read /dev/kmsg, except in a user namespace.
package oomwatch
