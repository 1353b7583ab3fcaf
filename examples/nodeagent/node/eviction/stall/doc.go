// SPDX-License-Identifier: Apache-2.0

// Package stall watches the kernel's pressure stall information (PSI): the time that tasks wait for a
// resource.
//
//	wake, err := stall.Watch(ctx, stall.Memory)
//	if err != nil {
//		return err // no PSI, or no permission
//	}
//	opts := eviction.Options{Wake: wake, … }
//
// Watch starts one goroutine, which ends with its context. A stall is a hint only: a program that
// reads a single large file stalls, too.
package stall
