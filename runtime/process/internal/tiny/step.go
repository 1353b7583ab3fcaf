// SPDX-License-Identifier: Apache-2.0

package tiny

import "unsafe"

// Step is a system call of a program. The fields are in the order that the instructions know.
type Step struct {
	Number uintptr
	Args   [6]uintptr
	Result uintptr // is written by the program
	Loads  uint32  // a bit for each argument that is the address of the argument
	Next   Next
	Target uintptr // the address of a step
}

// Next tells the step after a system call: the following step, or the one at Target.
type Next uint32

const (
	Follow Next = iota // always the following step
	Fails              // Target after an error
	Empty              // Target after an error and after 0, as at the end of a file
	Parent             // Target unless the result is 0, as in the parent of a clone
	Jump               // always Target
	// Execute is an execve. Target after an error; the following step if the program does not exist
	// or may not be executed.
	Execute
)

// Failed is the last error of a program.
type Failed struct {
	Step  uintptr // the address of the step: Fails, Empty or Execute
	Error uintptr // of several programs that cannot be executed, the first; or EACCES, if there is one
}

// The sizes that an address of a step is made of.
const (
	StepSize     = unsafe.Sizeof(Step{})
	resultOffset = unsafe.Offsetof(Step{}.Result)
)
