// SPDX-License-Identifier: Apache-2.0

// Package walls confines the processes of a container without root: system call filters (seccomp),
// restrictions of files, signals and sockets (Landlock), capabilities, no_new_privs, and namespaces
// with a root file system.
//
// Host is the kernel's and the user's ability. Ask is the wish of a container. Unmet compares the
// two, and Plan turns an Ask into record.Walls; both are pure. Start makes a process behind
// record.Walls: the system calls between fork and execve are a list (stage), prepared in this
// process and done by its child, which is a copy of one thread and does nothing else (fork). A
// process that joins a container's namespaces (Command.Beside) forks once more, because only the
// children of a process enter a PID namespace.
package walls
