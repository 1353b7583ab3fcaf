// SPDX-License-Identifier: Apache-2.0

// Package tiny makes programs of a few KiB that do prepared system calls. Such a program waits with 8
// KiB of memory where a process of Go needs two MiB, and starts in a tenth of the time.
//
// A program is a list of steps, which some sixty instructions work through (program). The instructions
// are those of this program's own text. Image writes them to an ELF file, with the steps and their
// memory.
package tiny
