// SPDX-License-Identifier: Apache-2.0

// Package cgroup reads the usage of containers from their cgroups, of version 1 and 2: the parts that
// container runtimes do not report.
//
//	tree := cgroup.New("/sys/fs/cgroup")
//	tree.Find(ids) // of containers
//	usage, ok := tree.Usage(id)
//
// A cgroup is recognized by its name: container runtimes put the ID of the container into it, as in
// cri-containerd-ID.scope. IDs are unique, so a cgroup is never taken for another.
package cgroup
