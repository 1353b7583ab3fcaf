// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/logstamp"
)

// leftovers returns the leftovers of an interrupted rotation among names: incomplete compressions,
// and originals whose compressed file is complete.
func leftovers(names []string, base string) []string {
	var out []string
	for _, name := range slices.Sorted(slices.Values(names)) {
		of, isTmp := strings.CutSuffix(name, tmpSuffix)
		r, ok := rotatedOf(of, base)
		if ok && (isTmp && r.gz || !isTmp && !r.gz && slices.Contains(names, name+logstamp.GZ)) {
			out = append(out, name)
		}
	}
	return out
}

// makeRoom decides about the rotated files before the log becomes the newest rotated file. The
// oldest files are removed, so that at most maxFiles remain, including the newest rotated file and
// the log itself. The remaining files are compressed. The newest rotated file is never compressed,
// because the runtime may still write to it.
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

// nextStamp returns the stamp of a log rotated at now: later than all present stamps, even if the
// clock went back. Stamps are in local time, as in the kubelet.
func nextStamp(names []string, base string, now time.Time) string {
	stamp := logstamp.At(now)
	files := history(names, base)
	if len(files) == 0 || stamp > files[len(files)-1].stamp {
		return stamp
	}
	return cmp.Or(logstamp.Next(files[len(files)-1].stamp), stamp)
}
