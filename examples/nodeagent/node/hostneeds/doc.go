// SPDX-License-Identifier: Apache-2.0

// Package hostneeds refuses new pods that need AppArmor, a seccomp profile or a shared mount that
// the host does not have. Without the package, such a pod waits, and its containers are never
// created.
//
//	features := func(*feature.Host) []feature.Feature {
//		return []feature.Feature{hostneeds.New(hostneeds.Options{
//			Root: "/var/lib/agent", Profiles: "/var/lib/agent/seccomp",
//			AppArmor: hostneeds.HasAppArmor, Mounts: mount.None{}.List,
//		})}
//	}
//
// Files and mounts of a host may change while pods run. So a pod is checked once, when it is new: a
// pod that ran before this agent, or that was admitted, is never refused.
//
// # Differences from the kubelet (1.36)
//
//   - A pod with a missing seccomp profile is refused, and so is a pod with Bidirectional mounts on a
//     file system that is not shared. In the kubelet the pod waits, with the error of the container
//     runtime.
//   - The reason of a pod that needs AppArmor is UnsupportedPodSpec instead of AppArmor.
//   - A profile of AppArmor that is not loaded is left to the container runtime, as in the kubelet.
package hostneeds
