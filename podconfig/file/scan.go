// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// errMissing is the problem of a path where there is nothing.
var errMissing = errors.New("there is no such file or folder")

// trustAfter is how old a file's last change must be when it is read, for an equal stamp to prove equal content later:
// longer than the steps of any file system's clock (FAT: 2 s).
const trustAfter = 3 * time.Second

// Result is what a look at the files gave.
type Result struct {
	// Pods is all pods to run, in the order of their files. Read-only: the source keeps them and hands them out again.
	// Nil until Ready.
	Pods []*v1.Pod
	// Ready tells that Pods is complete: the path was readable at least once, and no file of a first look was half-written.
	Ready bool
	// Changed tells that Pods or Ready is not what the look before gave.
	Changed bool
	// Recheck is when a Scan is due because something that may be an accident would then count; zero if there is nothing
	// of that kind.
	Recheck time.Time
}

// Scan looks at all files and reads those that changed: the step that Run repeats. It must not be called concurrently
// with itself, Glance or Run. The error is ctx's; what was seen until then is not lost.
func (s *Source) Scan(ctx context.Context) (Result, error) {
	now := time.Now()
	if s.firstScan.IsZero() {
		s.firstScan = now
	}
	l := list(s.path, s.listed)
	s.listed, s.settled = l, false
	if l.err != nil {
		return s.conclude(map[string]error{s.path: l.err}, time.Time{}, s.last.Ready), nil
	}
	recheck, complete, missing := s.lookForMissing(l, now), true, map[string]error{}
	if l.missing {
		complete = now.Sub(s.missingSince) >= s.missingWait(l)
		if complete {
			missing[s.path] = errMissing
		}
	}
	for _, path := range l.paths {
		if err := ctx.Err(); err != nil {
			return Result{}, context.Cause(ctx)
		}
		e := s.files[path]
		if e == nil {
			e = &entry{}
			s.files[path] = e
		}
		if again := s.refresh(path, e, now); !again.IsZero() {
			recheck = earliest(recheck, again)
			complete = complete && (e.pod != nil || now.Sub(s.firstScan) >= s.waits.folder)
		}
	}
	s.settled = len(s.files) == len(l.paths)
	return s.conclude(missing, recheck, s.last.Ready || complete), nil
}

// lookForMissing notes what is gone, and returns when to look again for it.
func (s *Source) lookForMissing(l listing, now time.Time) time.Time {
	if !l.missing {
		s.missingSince = time.Time{}
		s.single = len(l.paths) == 1 && l.paths[0] == s.path
		return s.files.markMissing(l.paths, now, s.waits.file)
	}
	if s.missingSince.IsZero() {
		s.missingSince = now
	}
	wait := s.missingWait(l)
	again := s.files.markMissing(nil, now, wait)
	if end := s.missingSince.Add(wait); now.Before(end) {
		again = earliest(again, end)
	}
	return again
}

// missingWait is for how long the path must have been missing: briefly if it was a single file in a folder that is still
// there, long if it was a folder, which is no way to end pods but may be how it is replaced.
func (s *Source) missingWait(l listing) time.Duration {
	if s.single && !l.adrift {
		return s.waits.file
	}
	return s.waits.folder
}

// paths are those of the files, in order; when they are those that were listed, they are sorted already.
func (s *Source) paths() []string {
	if s.settled {
		return s.listed.paths
	}
	return slices.Sorted(maps.Keys(s.files))
}

// conclude chooses among the files' pods and reports problems.
func (s *Source) conclude(problems map[string]error, recheck time.Time, ready bool) Result {
	pods, fileProblems := s.files.choose(s.paths(), s.invalid, s.winners)
	for path, err := range fileProblems {
		if problems[path] == nil {
			problems[path] = err
		}
	}
	s.report.update(problems)
	return s.result(pods, recheck, ready)
}

func (s *Source) result(pods []*v1.Pod, recheck time.Time, ready bool) Result {
	if !ready {
		pods = nil
	}
	r := Result{Pods: pods, Ready: ready, Recheck: recheck}
	r.Changed = ready != s.last.Ready || !slices.Equal(pods, s.last.Pods)
	s.last = r
	r.Pods = slices.Clone(pods)
	return r
}

// refresh brings the entry up to date with its file, and returns when to look at the file again if that had to be put
// off.
func (s *Source) refresh(path string, e *entry, now time.Time) (again time.Time) {
	if e.trusted && hasStamp(path, e.stamp) {
		e.err = e.decodeErr
		return time.Time{}
	}
	err := examine(path, s.decoder.Limit())
	var c content
	if err == nil {
		c, err = read(path, s.decoder.Limit())
	}
	switch {
	case errors.Is(err, errVanished): // after it was listed
		e.missingSince = now
		return now.Add(s.waits.file)
	case err != nil:
		e.err, e.trusted, e.busySince = err, false, time.Time{}
		return time.Time{}
	case c.torn:
		return now.Add(s.waits.file)
	case c.writer == writerPresent && e.writing(c.stamp, now, s.waits.writer):
		return now.Add(s.waits.file)
	}
	e.busySince = time.Time{}
	s.take(path, e, c, now)
	return time.Time{}
}

// take decodes content unless it is what the entry has already.
func (s *Source) take(path string, e *entry, c content, now time.Time) {
	sum := sha256.Sum256(c.data)
	if e.sum != sum {
		pod, err := s.decoder.Pod(c.data, manifest.Origin{Kind: manifest.OriginFile, Location: path})
		switch {
		case err == nil && e.halfWritten(c.data):
			err = errHalfWritten
		case err == nil:
			e.pod, e.name, e.good = pod, podName(pod), nil
			if len(c.data) <= goodLimit {
				e.good = c.data
			}
		}
		e.sum, e.decodeErr = sum, err
	}
	e.err = e.decodeErr
	e.stamp, e.trusted = c.stamp, now.Sub(c.stamp.changed()) > trustAfter && c.writer != writerPresent
}

// Glance looks for new files only, and takes those that are certainly complete: nobody has them open for writing, and
// they hold a valid pod of a name that no other file has. It notes which files are gone, too. All else is left to Scan,
// which has to follow. Thus a new pod need not wait for the debounce, which is there to protect the running ones.
//
// It must not be called concurrently with itself, Scan or Run, nor before the first Scan.
func (s *Source) Glance(ctx context.Context) (Result, error) {
	now := time.Now()
	unchanged := s.last
	unchanged.Changed, unchanged.Pods = false, slices.Clone(s.last.Pods)
	if s.settled && s.listed.holds(s.path) {
		return unchanged, nil
	}
	l := list(s.path, s.listed)
	if l.err != nil || !s.last.Ready || s.settled && sameNames(l, s.listed) {
		return unchanged, nil
	}
	s.listed, s.settled = l, false
	recheck := s.lookForMissing(l, now)
	names := s.files.names()
	for _, path := range l.paths {
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		if s.files[path] != nil {
			continue
		}
		if e := s.glanceAt(path, now); e != nil && !names[e.name] {
			s.files[path] = e
			names[e.name] = true
		}
	}
	s.settled = len(s.files) == len(l.paths) && recheck.IsZero()
	pods, _ := s.files.choose(s.paths(), s.invalid, s.winners)
	return s.result(pods, recheck, true), nil
}

// sameNames tells whether two listings of a folder are of the same names.
func sameNames(a, b listing) bool {
	return a.names != nil && slices.Equal(a.names, b.names)
}

func (s *Source) glanceAt(path string, now time.Time) *entry {
	if err := examine(path, s.decoder.Limit()); err != nil {
		return nil
	}
	c, err := read(path, s.decoder.Limit())
	if err != nil || c.torn || c.writer != writerAbsent {
		return nil
	}
	e := &entry{}
	if s.take(path, e, c, now); e.err != nil {
		return nil
	}
	return e
}
