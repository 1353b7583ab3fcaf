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
)

// entry is what is known about one file.
type entry struct {
	// stamp is that of the content last read; trusted means that an equal stamp proves equal content.
	stamp   stamp
	trusted bool
	// sum and decodeErr are of the content last read.
	sum       [sha256.Size]byte
	decodeErr error
	// err is why the file does not give the pod that it should: decodeErr, or why it could not be read.
	err error
	// pod is that of the last good content, nil if there has been none, and name its podName; good is that content, nil
	// if it is large.
	pod  *v1.Pod
	name string
	good []byte
	// missingSince is when the file was first found to be gone; zero if it is there.
	missingSince time.Time
	// busySince is since when the file is as it is now, with somebody writing to it; zero if nobody is.
	busySince time.Time
	busyStamp stamp
}

// table is the files of one source by path. It is plain data: times come in as values, nothing is read here.
type table map[string]*entry

// waits are the times that pass before something that may be an accident counts.
type waits struct {
	// file is for how long a file, and folder for how long the folder, must have been missing.
	file, folder time.Duration
	// writer is for how long a file that is open for writing must have stayed as it is.
	writer time.Duration
}

// markMissing notes which files are gone, forgets those that have been for long enough, and returns when to look again
// for the others; zero for never.
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
			again = earliest(again, end)
		} else {
			delete(t, path)
		}
	}
	return again
}

// earliest returns the earlier time; the zero time is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// writing tells whether to leave a file alone because somebody is writing to it: as long as it goes on changing, and for
// patience after. Some programs never close the files they wrote.
func (e *entry) writing(s stamp, now time.Time, patience time.Duration) bool {
	if e.busySince.IsZero() || e.busyStamp != s {
		e.busySince, e.busyStamp = now, s
	}
	return now.Sub(e.busySince) < patience
}

// errHalfWritten tells that a file ends in the middle of a line of what it held before.
var errHalfWritten = errors.New("half-written: it is the beginning of what it was, cut off within a line")

// goodLimit is how large a manifest may be for its content to be kept, in bytes.
const goodLimit = 64 << 10

// halfWritten tells whether data is a truncated copy of the last good content. A manifest cut off within a line is often
// still a valid one, of another pod; cut off between lines it may be what somebody wants.
func (e *entry) halfWritten(data []byte) bool {
	return len(data) < len(e.good) && bytes.HasPrefix(e.good, data) &&
		!bytes.HasSuffix(data, []byte("\n")) && e.good[len(data)] != '\n' && e.good[len(data)] != '\r'
}

func podName(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// choose returns the pods to run in the order of their files, and what is wrong with which file. Of files with pods of
// one name that of before counts as long as it is there, so that a copy beside it ends no pod; among newcomers the
// first does. A file that has just gone missing still counts. paths are the table's, in order. winners is changed to what
// was chosen: paths by pod name.
func (t table) choose(paths []string, invalid invalidPolicy, winners map[string]string) ([]*v1.Pod, map[string]error) {
	problems := map[string]error{}
	first := make(map[string]string, len(t)) // paths by pod name
	rivals := map[string][]string{}          // the others
	for _, path := range paths {
		e := t[path]
		if e.err != nil {
			problems[path] = e.err
		}
		if e.pod == nil || e.err != nil && invalid == dropInvalid {
			continue
		}
		if _, taken := first[e.name]; taken {
			rivals[e.name] = append(rivals[e.name], path)
		} else {
			first[e.name] = path
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
		if e := t[path]; e.pod != nil && winners[e.name] == path {
			pods = append(pods, e.pod)
		}
	}
	return pods, problems
}

func (t table) reportRivals(name string, paths []string, winner string, problems map[string]error) {
	for _, path := range paths {
		if path != winner && t[path].err == nil && t[winner].missingSince.IsZero() { // else it is about to win
			problems[path] = &DuplicateError{Pod: name, Winner: winner}
		}
	}
}

// names returns the names that any file's pod has.
func (t table) names() map[string]bool {
	names := map[string]bool{}
	for _, e := range t {
		if e.pod != nil {
			names[e.name] = true
		}
	}
	return names
}

// invalidPolicy is what becomes of the last good pod of a file that is bad now.
type invalidPolicy uint8

const (
	keepLastGood invalidPolicy = iota
	dropInvalid
)
