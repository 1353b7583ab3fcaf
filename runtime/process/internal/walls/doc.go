// SPDX-License-Identifier: Apache-2.0

// Package walls confines the processes of a container without root and without namespaces: system
// call filters (seccomp), restrictions of files, signals and sockets (Landlock), capabilities, and
// no_new_privs.
//
// Host is the kernel's and the user's ability. Ask is the wish of a container. Unmet compares the
// two, and Plan turns an Ask into record.Walls; both are pure. Start applies record.Walls to a
// thread, and starts a process from the thread. The thread is never used for anything else, because
// no wall can be taken down.
package walls
