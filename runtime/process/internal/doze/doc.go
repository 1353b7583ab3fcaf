// SPDX-License-Identifier: Apache-2.0

// Package doze lets a process wait with a few KiB of memory. A process of Go has at least two MiB of
// its own. Exec replaces the process by a program of some forty instructions (sleeper), which waits
// for descriptors and signals and then executes the program of Go again. PID, children, descriptors,
// working directory and arguments stay.
//
// The instructions are those of this program's own text. Exec writes them to memory, with an ELF
// header and the numbers of the descriptors.
package doze
