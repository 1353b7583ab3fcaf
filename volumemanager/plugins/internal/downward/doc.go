// SPDX-License-Identifier: Apache-2.0

// Package downward makes files of a pod's own fields and of the resources of its containers.
package downward
