// SPDX-License-Identifier: Apache-2.0

package file

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/retry"
)

// entry is the state of a file.
type entry struct {
	// stamp is the stamp of the last read content. If trusted, an equal stamp proves equal content.
	stamp   stamp
	trusted bool
	// sum and decodeErr belong to the last read content.
	sum       [sha256.Size]byte
	decodeErr error
	// err is the reason for a missing or outdated pod: decodeErr, or the error of the read.
	err error
	// pods are the pods of the last valid content, nil without such content, and names are their podNames. good
	// is the last valid content, nil if large.
	pods  []*v1.Pod
	names []string
	good  []byte
	// missingSince is the time at which the file was first found missing; zero if present.
	missingSince time.Time
	// busySince is the time since which a file with a writer has not changed; zero without a
	// writer.
	busySince time.Time
	busyStamp stamp
}

// table holds the files of a source by path. It is plain data and receives times as arguments.
type table map[string]*entry

// waits are the delays before a missing or unfinished file counts.
type waits struct {
	// file and folder are the times for which a file or the folder must be missing.
	file, folder time.Duration
	// writer is the time for which a file open for writing must be unchanged.
	writer time.Duration
}

// markMissing records missing files, forgets files missing for the time after, and returns the time
// to check the others again; zero for never.
func (t table) markMissing(present []string, now time.Time, after time.Duration) (again time.Time) {
	for _, path := range present {
		if e := t[path]; e != nil {
			e.missingSince = time.Time{}
		}
	}
	for path, e := range t {
		if _, found := slices.BinarySearch(present, path); found {
			continue
		}
		if e.missingSince.IsZero() {
			e.missingSince = now
		}
		if end := e.missingSince.Add(after); now.Before(end) {
			again = retry.Earlier(again, end)
		} else {
			delete(t, path)
		}
	}
	return again
}

// writing reports whether to leave a file alone because it is open for writing: while it changes,
// and for patience after the last change. Some programs never close their files.
func (e *entry) writing(s stamp, now time.Time, patience time.Duration) bool {
	if e.busySince.IsZero() || e.busyStamp != s {
		e.busySince, e.busyStamp = now, s
	}
	return now.Sub(e.busySince) < patience
}

// errHalfWritten means that a file is a truncated copy of its earlier content.
var errHalfWritten = errors.New("half-written: the content is the beginning of the earlier content, cut off within a line")

// goodLimit is the largest content in bytes to keep in entry.good.
const goodLimit = 64 << 10

// halfWritten reports whether data is the last valid content truncated within a line. Such a
// manifest is often still valid but describes another pod. A manifest truncated between lines may
// be intended.
func (e *entry) halfWritten(data []byte) bool {
	return len(data) < len(e.good) && bytes.HasPrefix(e.good, data) &&
		!bytes.HasSuffix(data, []byte("\n")) && e.good[len(data)] != '\n' && e.good[len(data)] != '\r'
}

func podName(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// choose returns the pods to run in the order of their files, and the problems by path. Among files
// with pods of the same name, the previous winner stays while it exists, so that a copy ends no
// pod. Without a previous winner the first path wins. A file counts until its missing time is over.
// paths are the paths of the table in order. choose updates winners, the winning paths by pod name.
func (t table) choose(paths []string, invalid invalidPolicy, winners map[string]string) ([]*v1.Pod, map[string]error) {
	problems := map[string]error{}
	first := make(map[string]string, len(t)) // first path by pod name
	rivals := map[string][]string{}          // further paths by pod name
	for _, path := range paths {
		e := t[path]
		if e.err != nil {
			problems[path] = e.err
		}
		if e.err != nil && invalid == dropInvalid {
			continue
		}
		for _, name := range e.names {
			if _, taken := first[name]; taken {
				rivals[name] = append(rivals[name], path)
			} else {
				first[name] = path
			}
		}
	}
	maps.DeleteFunc(winners, func(name, _ string) bool { return first[name] == "" })
	pods := make([]*v1.Pod, 0, len(first))
	for name, path := range first {
		if w := winners[name]; w != path && !slices.Contains(rivals[name], w) {
			winners[name] = path
		}
	}
	for name, others := range rivals {
		t.reportRivals(name, append(others, first[name]), winners[name], problems)
	}
	for _, path := range paths {
		e := t[path]
		for i, name := range e.names {
			if winners[name] == path {
				pods = append(pods, e.pods[i])
			}
		}
	}
	return pods, problems
}

func (t table) reportRivals(name string, paths []string, winner string, problems map[string]error) {
	for _, path := range paths {
		if path != winner && t[path].err == nil && t[winner].missingSince.IsZero() { // otherwise path is about to win
			problems[path] = &DuplicateError{Pod: name, Winner: winner}
		}
	}
}

// names returns the names of all files' pods.
func (t table) names() map[string]bool {
	names := map[string]bool{}
	for _, e := range t {
		for _, name := range e.names {
			names[name] = true
		}
	}
	return names
}

// invalidPolicy decides about the last valid pod of a file with invalid content.
type invalidPolicy uint8

const (
	keepLastGood invalidPolicy = iota
	dropInvalid
)
