// SPDX-License-Identifier: Apache-2.0

package mirror

// Names that the tests outside the package look at.

type (
	Step = step
)

const (
	StepCreate  = stepCreate
	StepNone    = stepNone
	StepReplace = stepReplace
	StepWait    = stepWait
)

var (
	Decide = decide
	Hash   = hashOf
)

// String returns the name of the step.
func (s step) String() string {
	switch s {
	case stepNone:
		return "none"
	case stepCreate:
		return "create"
	case stepReplace:
		return "replace"
	case stepWait:
		return "wait"
	}
	return "unknown"
}
