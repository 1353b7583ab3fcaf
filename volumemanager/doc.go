// SPDX-License-Identifier: Apache-2.0

// Package volumemanager gives pods their volumes: it brings what is mounted to
// what pods need, one operation per volume at a time.
package volumemanager
