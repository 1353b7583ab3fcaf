// SPDX-License-Identifier: Apache-2.0

// Package cgroups gives the pods of a node a hierarchy of cgroups: a cgroup of all pods, a cgroup
// of each QoS class, and a cgroup of each pod. Names and values equal the kubelet's (1.36), so a
// node can change from the kubelet to this agent and back while its pods run.
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
//	kubepods                     the allocatable resources of the node
//	├── pod<UID>                 a guaranteed pod: its requests and limits, with its containers below
//	├── burstable                the weight of the requests of its pods
//	│   └── pod<UID>
//	└── besteffort               the smallest weight
//	    └── pod<UID>
//
// With the systemd driver, these are the slices kubepods.slice, kubepods-burstable.slice and
// kubepods-burstable-pod<UID>.slice, with "_" for "-" in the UID.
//
// The weight of a pod's cgroup is the sum of the requests. The cgroup has a limit of cpu or memory if
// every container has such a limit, or the pod itself. Overhead of the RuntimeClass is included.
//
// With Settings.ProtectsMemory and cgroup version 2, memory.min of a guaranteed pod is the
// requested memory, and memory.low of a burstable pod is the requested memory. memory.min of
// kubepods is the sum over all these pods, and memory.low of burstable is the sum over its pods
// (KEP-2570, 1.37).
//
// # The cgroup of a pod
//
// The cgroup is made before the pod's sandbox. During a resize the cgroup has the larger of the old
// and the new value of each resource. So the limits of the pod grow before the limits of the
// containers, and shrink after them. A pod of an earlier agent is resized in the same way. The
// cgroup is removed when no container of the pod runs and the volumes of the pod are unmounted.
// Processes that are still in the cgroup are killed.
//
// If an agent without cgroups for pods has made the sandbox of a pod, the running containers of the
// pod stay in their cgroups. Containers that start later are in the pod's cgroup.
//
// # Leftovers
//
// Options.Records has a file for each cgroup of a pod, with the path of the cgroup. After its start an
// agent removes the recorded cgroups whose pods are no longer configured, as soon as they have no
// processes. Cgroups without a record belong to other programs and are not removed. The kubelet
// removes the cgroups of all pods that the kubelet does not know.
//
// # Goroutines
//
// Run, a function of the Feature, writes the cgroup of all pods and the cgroups of the classes,
// every minute and when the sum of the requests changes. Run also removes leftovers.
//
// # Differences from the kubelet (1.36)
//
//   - Leftovers are found by records, see above.
//   - The kubelet restarts the containers of a pod without a cgroup. This package does not.
//   - The weight of the burstable class is written when it changes. The start of a pod does not
//     wait.
//   - With cgroup version 2, the weight is proportional to the cpu request, as in the kubelet. The
//     weights that container runtimes give to containers are not.
package cgroups
