// SPDX-License-Identifier: Apache-2.0

package casetest

import (
	"hash/fnv"
	"net/http"
	"testing"
)

// Rounds returns how many of n rounds with random input a test plays: all, or a tenth under the race detector, where
// each takes some ten times as long. make rounds plays all of them.
func Rounds[N int | uint64](n N) N {
	if Raced {
		return max(n/10, 1)
	}
	return n
}

// Chosen reports whether a test of very many cases plays the case with this name: always, or for a third of the names
// under the race detector.
func Chosen(name string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return !Raced || h.Sum32()%3 == 0
}

// SkipUnlessChosen skips a test or subtest whose name is not Chosen.
func SkipUnlessChosen(tb testing.TB) {
	tb.Helper()
	if !Chosen(tb.Name()) {
		tb.Skip("two thirds of these cases are not played under the race detector; make rounds plays all")
	}
}

// Codes returns the codes of HTTP that are errors: 400 to 599, or those with a name under the race detector.
func Codes() (codes []int) {
	for code := 400; code < 600; code++ {
		if !Raced || http.StatusText(code) != "" {
			codes = append(codes, code)
		}
	}
	return codes
}
