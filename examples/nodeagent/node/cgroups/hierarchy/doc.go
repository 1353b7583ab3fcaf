// SPDX-License-Identifier: Apache-2.0

// Package hierarchy writes the cgroups of package cgroups, on Linux: with cgroup version 1, version 2 or
// both, as folders or as slices of systemd.
//
//	writer, err := hierarchy.New(cgroups.Cgroupfs)
//
// On a machine with version 1, a cgroup is made in the hierarchies of all controllers, and also in
// the hierarchy of version 2, if it is mounted. On a machine with version 2 only, the controllers
// are enabled in the parents of a cgroup.
package hierarchy
