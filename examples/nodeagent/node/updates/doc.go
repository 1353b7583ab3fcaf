// SPDX-License-Identifier: Apache-2.0

// Package updates replaces pods by newer versions in transactions: the images of the next version
// are present before the running version is touched, a gate decides about the next version, and
// otherwise the last good version comes back by itself.
package updates
