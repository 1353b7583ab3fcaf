// SPDX-License-Identifier: Apache-2.0

package statusmanager

import "github.com/keelson-dev/keelson/internal/podconditions"

// Names that the tests outside the package look at.

type (
	Clamp      = clamp
	MergeInput = mergeInput
)

var (
	ContainersReadyCondition = podconditions.ContainersReady
	Diff                     = diff
	DiffAll                  = diffAll
	InitializedCondition     = initializedCondition
	Merge                    = merge
	Owned                    = owned
	PodReadyCondition        = podconditions.PodReady
)
