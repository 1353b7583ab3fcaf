// SPDX-License-Identifier: Apache-2.0

package statusmanager

// Names that the tests outside the package look at.

type (
	Clamp      = clamp
	MergeInput = mergeInput
)

var (
	ContainersReadyCondition = containersReadyCondition
	Diff                     = diff
	DiffAll                  = diffAll
	InitializedCondition     = initializedCondition
	Merge                    = merge
	Owned                    = owned
	PodReadyCondition        = podReadyCondition
)
