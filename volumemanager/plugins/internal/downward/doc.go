// SPDX-License-Identifier: Apache-2.0

// Package downward creates files from fields of a pod and from resources of its containers.
package downward
