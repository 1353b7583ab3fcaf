// SPDX-License-Identifier: Apache-2.0

package imagegc

// Names that the tests outside the package look at.

const (
	EventImageGCFailed = eventImageGCFailed
)
