// SPDX-License-Identifier: Apache-2.0

// Package stage starts processes behind record.Walls. The system calls between fork and execve are a
// list (stage), prepared in this process and done by its child, which is a copy of one thread and
// does nothing else (fork). A process that joins a container's namespaces (Command.Beside) forks once
// more, because only the children of a process enter a PID namespace.
//
// Every container has a shim, and a shim initializes the packages that package shim imports. Package
// stage therefore imports no API of Kubernetes. The decisions are in package walls.
package stage
