// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"strconv"
)

// format returns a value for readers.
func format(value float64, unit string) string {
	switch {
	case math.IsNaN(value):
		return "–"
	case unit == "s":
		return duration(value)
	case unit != "":
		return plain(value, 1) + " " + unit
	}
	return plain(value, 3)
}

// plain returns a whole number with thin groups of digits, or a number with decimals.
func plain(value float64, decimals int) string {
	if value != math.Trunc(value) || math.Abs(value) >= 1e15 {
		return strconv.FormatFloat(value, 'f', decimals, 64)
	}
	text := strconv.FormatFloat(math.Abs(value), 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	if value < 0 {
		text = "-" + text
	}
	return text
}

// duration returns seconds in a unit that fits.
func duration(seconds float64) string {
	if seconds == 0 {
		return "0 s"
	}
	for _, u := range []struct {
		below, unit float64
		name        string
	}{
		{1e-3, 1e-6, "µs"}, {1, 1e-3, "ms"}, {120, 1, "s"}, {3600, 60, "min"}, {48 * 3600, 3600, "h"},
	} {
		if math.Abs(seconds) < u.below {
			return trimmed(seconds/u.unit) + " " + u.name
		}
	}
	return trimmed(seconds/86400) + " d"
}

// trimmed returns a number with three digits, without zeros at the end of a fraction.
func trimmed(x float64) string {
	if math.Abs(x) >= 100 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	text, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
	return strconv.FormatFloat(text, 'f', -1, 64)
}

// difference returns the change from a value to another: in points for percentages, otherwise in
// percent.
func difference(from, to float64, unit string) string {
	switch {
	case math.IsNaN(from) || math.IsNaN(to):
		return ""
	case from == to:
		return "equal"
	case unit == "%":
		return fmt.Sprintf("%+.1f points", to-from)
	case from == 0:
		return ""
	}
	return fmt.Sprintf("%+.1f %%", 100*(to-from)/math.Abs(from))
}
