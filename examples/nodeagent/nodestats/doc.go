// SPDX-License-Identifier: Apache-2.0

// Package nodestats measures the resource usage of a node and its pods, for the Summary API and the
// metrics of a kubelet. All readers share the measurements.
//
//	collector, err := nodestats.New(nodestats.Options{
//		NodeName: "edge-1",
//		Pods:     agent.Pods,
//		Runtime:  reader, // a stats.Reader
//		Root:     "/var/lib/agent",
//		LogDir:   "/var/log/pods",
//	})
//	if err != nil {
//		return err
//	}
//	snapshot, err := collector.Collect(ctx, nodestats.Request{})
//
// Nothing is measured between the requests, and a Collector has no goroutine. Requests at the same
// time wait for a single measurement, in the goroutine of one of them.
//
// # Ages
//
// A snapshot is at most 5 s old, unless the Request says otherwise. Each value has the time of its
// measurement. Readers of different details share the parts that both need. Folders (volumes without a
// file system of their own, logs, and working folders of the process backend) are measured by a walk,
// at most once a minute each, and at most for 5 % of a core. The walks of one request end after 2 s: a
// folder without a result is left out.
//
// usageNanoCores is the average since a measurement at least 5 s before, so it is missing for the
// first 5 s of readings. A missing value is absent, never 0.
//
// # Differences from the kubelet (1.36)
//
//   - There is no cadvisor. Usage of containers comes from the runtime, usage of a pod is that of the
//     runtime or the sum over the containers, usage of all pods is that of their cgroup or the sum, and
//     usage of the node comes from /proc, or from the root of Cgroups in a container. The system
//     container "kubelet" is this process, and not its cgroup. The cgroups of the container runtime and
//     of the system are not measured.
//   - A node that is a container with a limit of memory has no more memory than the limit. The
//     kubelet measures such a node against the memory of the machine.
//   - The memory of the node includes memory of the kernel that it cannot reclaim, and reserved huge
//     pages, which the root cgroup does not count.
//   - Pods in the Summary are those that are not terminal, with or without a running container.
//   - An unreadable volume or log folder is left out. The kubelet does the same for volumes.
//   - usageNanoCores needs no eviction manager.
//   - The processor time of a container never falls, even if the runtime's does.
package nodestats
