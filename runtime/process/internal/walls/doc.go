// SPDX-License-Identifier: Apache-2.0

// Package walls confines the processes of a container without root: system call filters (seccomp),
// restrictions of files, signals and sockets (Landlock), capabilities, no_new_privs, and namespaces
// with a root file system.
//
// Host is the kernel's and the user's ability. Ask is the wish of a container. Unmet compares the
// two, and Plan turns an Ask into record.Walls; both are pure. Package stage makes a process behind
// record.Walls.
package walls
