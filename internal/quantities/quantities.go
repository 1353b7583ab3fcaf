// SPDX-License-Identifier: Apache-2.0

// Package quantities turns quantities of resources into numbers that stay within an int64.
//
// The API server accepts a quantity of any size, such as a limit of 10E or 3E40. For such quantities,
// Value and MilliValue of resource.Quantity (apimachinery 0.37) return 0 or a negative number, and 1
// for -1e-10. The functions of this package return the largest int64 for a number that does not fit:
// no node has so much of a resource.
package quantities

import (
	"math"
	"math/big"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Value returns q in its unit, rounded away from zero.
func Value(q resource.Quantity) int64 {
	return scaled(q, 0)
}

// Milli returns q in thousandths of its unit, rounded away from zero.
func Milli(q resource.Quantity) int64 {
	return scaled(q, 3)
}

// scaled returns q in units of 10^-digits. scaled computes from the decimal number, because the
// comparisons of resource.Quantity are wrong for some exponents, like the conversions.
func scaled(q resource.Quantity, digits int64) int64 {
	if n, whole := q.AsInt64(); whole && fits(n) {
		return n * powers[digits]
	}
	if digits == 3 {
		if n := q.MilliValue(); fits(n) && q.Cmp(*resource.NewMilliQuantity(n, q.Format)) == 0 {
			return n // whole thousandths, without a decimal number in memory
		}
	}
	d := q.AsDec()
	exponent := digits - int64(d.Scale())
	if n, ok := d.Unscaled(); ok && fits(n) && 0 <= exponent && exponent < int64(len(powers)) {
		return n * powers[exponent]
	}
	n := new(big.Int).Abs(d.UnscaledBig())
	if n.Sign() == 0 {
		return 0
	}
	size := float64(n.BitLen()) * math.Log10(2) // n < 10^size <= 2n
	switch {
	case size+float64(exponent) > 20:
		n.SetInt64(math.MaxInt64)
	case size+float64(exponent) < 0:
		n.SetInt64(1)
	case exponent >= 0:
		n.Mul(n, power(exponent))
	default:
		var rest big.Int
		n.QuoRem(n, power(-exponent), &rest)
		if rest.Sign() > 0 {
			n.Add(n, big.NewInt(1))
		}
	}
	value := int64(math.MaxInt64)
	if n.IsInt64() {
		value = n.Int64()
	}
	return int64(d.Sign()) * value
}

// powers are the powers of ten by which a number that fits can be multiplied.
var powers = [...]int64{1, 10, 100, 1000}

// fits reports whether n times each of the powers is an int64.
func fits(n int64) bool { return -math.MaxInt64/1000 <= n && n <= math.MaxInt64/1000 }

func power(exponent int64) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(exponent), nil)
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
