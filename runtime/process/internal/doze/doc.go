// SPDX-License-Identifier: Apache-2.0

// Package doze lets a process wait with a few KiB of memory. A process of Go has at least two MiB of
// its own. Exec replaces the process by a program of package tiny (a sleeper), which waits for
// descriptors and signals and then executes the program of Go again. PID, children, descriptors,
// working directory and arguments stay.
package doze
