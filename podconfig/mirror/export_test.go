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
