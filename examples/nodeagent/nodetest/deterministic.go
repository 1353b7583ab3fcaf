// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"iter"
	"math"
	"os"
	"strconv"
	"testing"
)

// orderSeed is the environment variable of command dst, the only reader of which is a runtime that
// the command has edited.
const orderSeed = "DST_SEED"

// Deterministic returns n seeds for a range loop, beginning with seed. In a test that runs under
// command dst (tools/dst), each seed decides the order of goroutines in the bubbles that the body of
// the loop makes: equal seeds give equal journals, and other seeds are other interleavings. In a
// plain go test, the loop is the same, and the order within an instant of virtual time is not fixed.
//
//	for seed := range nodetest.Deterministic(t, 1, 100) {
//		if r := nodetest.Play(t, script); r.Err != nil {
//			t.Fatalf("seed %d: %v\n%s", seed, r.Err, r.Journal)
//		}
//	}
//
// The test must not be parallel, because the seed belongs to the process.
func Deterministic(t *testing.T, seed uint64, n int) iter.Seq[uint64] {
	t.Helper()
	text, ordered := os.LookupEnv(orderSeed)
	if _, err := strconv.ParseUint(text, 10, 64); ordered && err != nil {
		t.Fatalf("nodetest: %s=%q: the seed is a number from 0 to %d", orderSeed, text, uint64(math.MaxUint64))
	}
	if !ordered {
		t.Log("nodetest: the order within an instant is not fixed; command dst (tools/dst) fixes the order")
	}
	return func(yield func(uint64) bool) {
		for i := range uint64(n) {
			if ordered {
				t.Setenv(orderSeed, strconv.FormatUint(seed+i, 10))
			}
			if !yield(seed + i) {
				return
			}
		}
	}
}
