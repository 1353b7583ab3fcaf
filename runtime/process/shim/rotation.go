// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"bytes"
	"slices"
	"strings"
	"time"
)

// stampLayout is the kubelet's time stamp of a rotated log in local time. The file's name is
// <log>.<stamp>, or <log>.<stamp>.gz after a compression by another program.
const stampLayout = "20060102-150405"

// makeRoom decides a rotation of the log base at now. remove are the rotated files to remove, so
// that the current log, a new log and the remaining files are at most maxFiles. stamp is the time
// stamp of the current log, later than the stamps of all remaining files even if the clock was set
// back.
func makeRoom(names []string, base string, maxFiles int, now time.Time) (remove []string, stamp string) {
	var rotated []string
	for _, name := range names {
		if isStamp(stampOf(name, base)) {
			rotated = append(rotated, name)
		}
	}
	slices.Sort(rotated) // stamps are of one length
	if n := len(rotated) - (max(maxFiles, 2) - 2); n > 0 {
		remove, rotated = rotated[:n:n], rotated[n:]
	}
	stamp = now.Format(stampLayout)
	for len(rotated) > 0 {
		newest := rotated[len(rotated)-1]
		last := stampOf(newest, base)
		if stamp > last {
			break
		}
		if next := following(last); isStamp(next) {
			return remove, next
		}
		// A file with the last stamp of the year 9999 leaves no later stamp.
		remove, rotated = append(remove, newest), rotated[:len(rotated)-1]
	}
	return remove, stamp
}

// stampOf returns the part of name in the place of a stamp.
func stampOf(name, base string) string {
	rest, ok := strings.CutPrefix(name, base+".")
	if !ok {
		return ""
	}
	return strings.TrimSuffix(rest, ".gz")
}

func isStamp(s string) bool {
	_, err := time.Parse(stampLayout, s)
	return err == nil && len(s) == len(stampLayout) // the parser accepts fractions, too
}

func following(stamp string) string {
	t, err := time.Parse(stampLayout, stamp)
	if err != nil {
		return ""
	}
	return t.Add(time.Second).Format(stampLayout)
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
