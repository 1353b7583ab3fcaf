// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"bytes"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/internal/logstamp"
)

// makeRoom decides a rotation of the log base at now. remove are the rotated files to remove, so
// that the current log, a new log and the remaining files are at most maxFiles. stamp is the time
// stamp of the current log, later than the stamps of all remaining files even if the clock was set
// back.
func makeRoom(names []string, base string, maxFiles int, now time.Time) (remove []string, stamp string) {
	var rotated []string
	for _, name := range names {
		if _, _, ok := logstamp.Of(name, base); ok {
			rotated = append(rotated, name)
		}
	}
	slices.Sort(rotated) // stamps are of one length
	if n := len(rotated) - (max(maxFiles, 2) - 2); n > 0 {
		remove, rotated = rotated[:n:n], rotated[n:]
	}
	stamp = logstamp.At(now)
	for len(rotated) > 0 {
		newest := rotated[len(rotated)-1]
		last, _, _ := logstamp.Of(newest, base)
		if stamp > last {
			break
		}
		if next := logstamp.Next(last); next != "" {
			return remove, next
		}
		// A file with the last stamp of the year 9999 leaves no later stamp.
		remove, rotated = append(remove, newest), rotated[:len(rotated)-1]
	}
	return remove, stamp
}

// fitting returns the length of the whole lines that fit into room.
func fitting(lines []byte, room int64) int {
	if room >= int64(len(lines)) {
		return len(lines)
	}
	return bytes.LastIndexByte(lines[:max(room, 0)], '\n') + 1
}

// firstLine returns the length of the first line.
func firstLine(lines []byte) int {
	if i := bytes.IndexByte(lines, '\n'); i >= 0 {
		return i + 1
	}
	return len(lines)
}
