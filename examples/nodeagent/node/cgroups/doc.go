// SPDX-License-Identifier: Apache-2.0

// Package cgroups gives the pods of a node a hierarchy of cgroups: one for all pods, one for each QoS
// class, one for each pod. The names and values are those of the kubelet (1.36), so that either agent
// takes the pods of the other over.
//
//	groups, err := cgroups.New(cgroups.Options{
//		Writer: writer,           // of package cgroups/hierarchy
//		Driver: cgroups.Cgroupfs, // that of the container runtime
//		Root:   "/",
//		Node:   cgroups.ForResources(allocatable, settings, false),
//		Records: root + "/cgroups",
//	})
//	if err != nil {
//		return err
//	}
//	if err := groups.SetUp(); err != nil {
//		return err
//	}
//	criOptions.CgroupParent = groups.Parent
//	nodeOptions.Features = func(h *feature.Host) []feature.Feature { return []feature.Feature{groups.Feature(h)} }
//
// # The hierarchy
//
//	kubepods                     what pods may use of the node
//	├── pod<UID>                 a guaranteed pod: its requests and limits, with its containers below
//	├── burstable                the weight of the requests of its pods
//	│   └── pod<UID>
//	└── besteffort               the smallest weight
//	    └── pod<UID>
//
// With the systemd driver, these are the slices kubepods.slice, kubepods-burstable.slice and
// kubepods-burstable-pod<UID>.slice, with "_" for "-" in the UID.
//
// A pod's cgroup has the sum of the requests as its weight. It has a limit of cpu or memory if every
// container has one, or the pod itself. Overhead of the RuntimeClass is included.
//
// # A pod's way
//
// The cgroup is made before the pod's sandbox. While a resize is carried out, the cgroup has the
// larger of the old and the new value of each resource: a limit grows before those of the containers,
// and shrinks after them. The same holds for the cgroup of a pod that an earlier agent started. The
// cgroup is removed when no container of the pod runs and its volumes are unmounted. A process that is
// left in it by then is killed.
//
// A pod whose sandbox was made outside, by an agent without cgroups for pods, keeps running there. Only
// containers that are started later are in the pod's cgroup.
//
// # Leftovers
//
// For each cgroup of a pod there is a file in Options.Records with its path. An agent that starts
// removes the cgroups of its records whose pods are not configured any more, when they have no
// processes. Cgroups without a record belong to other programs, and are left alone. The kubelet removes
// all cgroups of pods that it does not know.
//
// # Goroutines
//
// Run, a function of the Feature, writes the cgroups of all pods and of the classes: each minute, and
// when the sum of the requests changes. It removes leftovers.
//
// # Differences from the kubelet (1.36)
//
//   - Leftovers are found by records, see above.
//   - The kubelet restarts the containers of a pod without a cgroup. This package does not.
//   - The weight of burstable pods is written when it changes, beside the start of a pod.
//   - With cgroup version 2, the weight is the kubelet's linear one. Container runtimes use another
//     function of the cpu request for containers.
package cgroups
