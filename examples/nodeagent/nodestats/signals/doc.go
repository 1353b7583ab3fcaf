// SPDX-License-Identifier: Apache-2.0

// Package signals measures a node for package eviction. It uses the Collector that also serves the
// Summary API, so that both have the same figures.
//
//	collector, err := nodestats.New(nodestats.Options{ … })
//	if err != nil {
//		return err
//	}
//	manager, err := eviction.New(eviction.Options{Observer: &signals.Observer{Collector: collector}, … })
//
// # Signals
//
//	memory.available     MemFree, inactive pages of files, and reclaimable kernel caches, of /proc/meminfo
//	allocatableMemory    the limit of the cgroup of all pods, minus its usage without inactive pages of files
//	nodefs               the file system of the collector's Root
//	imagefs              the file system of the collector's ImageFS
//	pid.available        the smaller of kernel.pid_max and kernel.threads-max, minus all tasks
//
// A file system without a limit of inodes has no reading of inodesFree. Without ImageFS, or while the
// container runtime does not answer, imagefs has no reading. containerfs has no reading: a runtime that
// keeps writable layers apart from its images is not supported.
//
// # Differences from the kubelet (1.36)
//
//   - Kernel memory that cannot be reclaimed counts as used (43916, 131319). The kubelet does not
//     see it.
//   - A pod is ranked by its processes and threads if its cgroups are known, and by its processes
//     otherwise. Containers of containerd without a cgroup for the pod have no count of processes.
//   - The disk usage of containers that do not run counts for their pods.
package signals
