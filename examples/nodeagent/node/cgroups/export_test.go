// SPDX-License-Identifier: Apache-2.0

package cgroups

// Widest is widest.
var Widest = widest
