// SPDX-License-Identifier: Apache-2.0

// Package quantities turns quantities of resources into numbers that stay within an int64.
//
// The API server accepts a quantity of any size, such as a limit of 10E. Value and MilliValue of
// resource.Quantity (apimachinery 0.37) then return 0 or a negative number. Here it is the largest
// int64: more than any node has.
package quantities

import (
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Value returns q in its unit, rounded up.
func Value(q resource.Quantity) int64 {
	switch {
	case q.CmpInt64(math.MaxInt64) >= 0:
		return math.MaxInt64
	case q.CmpInt64(-math.MaxInt64) <= 0:
		return -math.MaxInt64
	}
	return q.Value()
}

// Milli returns q in thousandths of its unit, rounded up.
func Milli(q resource.Quantity) int64 {
	switch {
	case q.CmpInt64(math.MaxInt64/1000) > 0:
		return math.MaxInt64
	case q.CmpInt64(-math.MaxInt64/1000) < 0:
		return -math.MaxInt64
	}
	return q.MilliValue()
}

// Sum returns the sum of numbers that are not negative.
func Sum(all ...int64) int64 {
	var sum int64
	for _, n := range all {
		if n > math.MaxInt64-sum {
			return math.MaxInt64
		}
		sum += n
	}
	return sum
}
