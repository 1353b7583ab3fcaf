// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"slices"
	"strings"
	"time"
)

// leftovers returns which of names beside the log file base an interrupted
// rotation has left: compressions that are not complete, and what was
// compressed but not removed.
func leftovers(names []string, base string) []string {
	var out []string
	for _, name := range slices.Sorted(slices.Values(names)) {
		of, isTmp := strings.CutSuffix(name, tmpSuffix)
		r, ok := rotatedOf(of, base)
		if ok && (isTmp && r.gz || !isTmp && !r.gz && slices.Contains(names, name+gzSuffix)) {
			out = append(out, name)
		}
	}
	return out
}

// makeRoom decides what happens to the rotated files before the log becomes the
// newest of them: the oldest are removed, so that with it and the log itself
// there are no more than maxFiles; those that stay are compressed. So the newest
// is never compressed: who writes may not have let go of it yet.
func makeRoom(names []string, base string, maxFiles int) (remove, compress []string) {
	files := history(names, base)
	for i, f := range files {
		switch {
		case i < len(files)-(maxFiles-2):
			remove = append(remove, base+f.suffix())
		case !f.gz:
			compress = append(compress, base+f.suffix())
		}
	}
	return remove, compress
}

// nextStamp names the file that a log becomes at now: later than all there are,
// whatever the clock does. It is local time, as in the kubelet.
func nextStamp(names []string, base string, now time.Time) string {
	stamp := now.Format(stampLayout)
	files := history(names, base)
	if len(files) == 0 || stamp > files[len(files)-1].stamp {
		return stamp
	}
	newest, err := time.Parse(stampLayout, files[len(files)-1].stamp)
	if err != nil {
		return stamp // not so: history has stamps only
	}
	return newest.Add(time.Second).Format(stampLayout)
}
