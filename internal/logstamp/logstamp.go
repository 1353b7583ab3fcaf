// SPDX-License-Identifier: Apache-2.0

// Package logstamp names rotated logs as the kubelet does: the name of the log, a time stamp, and .gz after a compression.
package logstamp

import (
	"strings"
	"time"
)

const layout = "20060102-150405"

// GZ is the end of the name of a compressed file.
const GZ = ".gz"

// At returns the stamp of a time in its location. Stamps of a location are in the order of their times.
func At(t time.Time) string { return t.Format(layout) }

// Next returns the stamp a second later, or "" after the last stamp of the year 9999.
func Next(stamp string) string {
	t, err := time.Parse(layout, stamp)
	if next := t.Add(time.Second).Format(layout); err == nil && len(next) == len(layout) {
		return next
	}
	return ""
}

// Of returns the stamp in the name of a rotated file of the log base, and whether the file is compressed. ok is false for
// the name of another file.
func Of(name, base string) (stamp string, gz, ok bool) {
	rest, ok := strings.CutPrefix(name, base+".")
	stamp, gz = strings.CutSuffix(rest, GZ)
	_, err := time.Parse(layout, stamp)
	return stamp, gz, ok && err == nil && len(stamp) == len(layout) // the parser takes fractions, too
}
