// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package pace

// adviseHugePages has no effect.
func adviseHugePages(int) {}
