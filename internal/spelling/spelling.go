// SPDX-License-Identifier: Apache-2.0

// Package spelling finds the intended name of a misspelled word.
package spelling

import "strings"

// Nearest returns the name that differs least from word, or "" if no name is near. Case is ignored. Of equally near
// names the first is returned.
func Nearest[T ~string](word string, names []T) (best T) {
	limit := min(3, 1+len(word)/3)
	for _, name := range names {
		if d := distance(strings.ToLower(word), strings.ToLower(string(name)), limit); d < limit {
			best, limit = name, d
		}
	}
	return best
}

// distance counts the single-byte edits from a to b. If the lengths differ by limit or more, the result is limit.
func distance(a, b string, limit int) int {
	if max(len(a), len(b))-min(len(a), len(b)) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// Similar returns the names with a word in common with name. Dashes separate words. Words of six letters or more count
// as equal if they differ by one edit.
func Similar(name string, names []string) []string {
	var similar []string
	for _, candidate := range names {
		if shareWord(name, candidate) {
			similar = append(similar, candidate)
		}
	}
	return similar
}

func shareWord(a, b string) bool {
	for word := range strings.SplitSeq(a, "-") {
		for other := range strings.SplitSeq(b, "-") {
			if len(word) >= 3 && word == other || len(word) >= 6 && distance(word, other, 2) < 2 {
				return true
			}
		}
	}
	return false
}
