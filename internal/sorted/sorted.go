// SPDX-License-Identifier: Apache-2.0

// Package sorted sorts slices of structs with code that is compiled once. The functions of package slices are compiled
// anew for each type of element: for a large struct that is 20 KB of the program.
package sorted

import (
	"iter"
	"slices"
	"sort"
)

// By sorts s in place. compare returns a negative number if a is before b. Equal elements are in any order.
func By[E any](s []E, compare func(a, b E) int) {
	if len(s) > 1 {
		sort.Slice(s, func(i, j int) bool { return compare(s[i], s[j]) < 0 })
	}
}

// Stable is By, and keeps the order of equal elements.
func Stable[E any](s []E, compare func(a, b E) int) {
	if len(s) > 1 {
		sort.SliceStable(s, func(i, j int) bool { return compare(s[i], s[j]) < 0 })
	}
}

// Collect returns the elements of seq, sorted like By.
func Collect[E any](seq iter.Seq[E], compare func(a, b E) int) []E {
	s := slices.Collect(seq)
	By(s, compare)
	return s
}
