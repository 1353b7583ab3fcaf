// SPDX-License-Identifier: Apache-2.0

// Package cgroup makes a cgroup for each container of the process backend, below a cgroup that was
// given to the agent: in version 2, and in the hierarchies of version 1.
//
// A leaf has four limits, each of them one file, so the package writes the files itself: a library
// with drivers for systemd, devices and eBPF would be larger than the backend.
//
//	<parent>/<pod UID>               the limits of the pod
//	<parent>/<pod UID>/<container>   the limits of the container, and its processes
//
// The agent makes and removes the cgroups. The container's first process enters its cgroup before
// any wall stands, and all other processes inherit the cgroup. Shims are outside, so that no limit of
// a container ends its shim.
package cgroup
