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

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// errMissing is the problem of a path without a file or folder.
var errMissing = errors.New("there is no such file or folder")

// trustAfter is the minimum age of a file's last change at the read, so that an equal stamp later
// proves equal content. It exceeds the clock resolution of any file system (FAT: 2 s).
const trustAfter = 3 * time.Second

// Result is the result of a Scan or Glance.
type Result struct {
	// Pods are all pods to run, in the order of their files. The source shares them between
	// results; do not edit them. Nil until Ready.
	Pods []*v1.Pod
	// Ready reports whether Pods is complete: the path was readable at least once, and no file was
	// half-written in the first scan.
	Ready bool
	// Changed reports whether Pods or Ready differs from the previous result.
	Changed bool
	// Recheck is the time of the next necessary Scan, after which a missing or unfinished file
	// counts. Zero if no such file exists.
	Recheck time.Time
}

// Scan lists all files and reads changed files. Run calls it repeatedly. It must not be called
// concurrently with itself, Glance or Run. The error is the cause of ctx; files read so far are
// kept.
func (s *Source) Scan(ctx context.Context) (Result, error) {
	now := time.Now()
	if s.firstScan.IsZero() {
		s.firstScan = now
	}
	l, err := s.list(ctx)
	if err != nil {
		return Result{}, err
	}
	s.listed, s.settled = l, false
	if l.err != nil {
		return s.conclude(map[string]error{s.path: l.err}, s.whenHung(l.err, now), s.last.Ready), nil
	}
	recheck, complete, missing := s.lookForMissing(l, now), true, map[string]error{}
	if l.missing {
		complete = now.Sub(s.missingSince) >= s.missingWait(l)
		if complete {
			missing[s.path] = errMissing
		}
	}
	err = s.lookAt(ctx, l.paths, func(path string, seen look) {
		e := s.entry(path)
		if again := s.refresh(path, e, seen, now); !again.IsZero() {
			recheck = retry.Earlier(recheck, again)
			complete = complete && (e.pods != nil || now.Sub(s.firstScan) >= s.waits.folder)
		}
	})
	if err != nil {
		return Result{}, err
	}
	s.settled = len(s.files) == len(l.paths)
	return s.conclude(missing, recheck, s.last.Ready || complete), nil
}

// list lists the folder. The error is the cause of ctx.
func (s *Source) list(ctx context.Context) (listing, error) {
	before := s.listed
	var l listing
	err := each(ctx, &s.disk, []string{s.path}, func(int) listing { return s.fs.list(s.path, before) },
		func(_ int, result listing, err error) {
			if l = result; err != nil {
				l = listing{err: err}
			}
		})
	return l, err
}

// lookAt reads files, skipping certainly unchanged files. The error is the cause of ctx.
func (s *Source) lookAt(ctx context.Context, paths []string, got func(path string, seen look)) error {
	known, limit := make([]stamp, len(paths)), s.limit
	for i, path := range paths {
		if e := s.files[path]; e != nil && e.trusted {
			known[i] = e.stamp
		}
	}
	return each(ctx, &s.disk, paths, func(i int) look { return s.fs.look(paths[i], known[i], limit) },
		func(i int, seen look, err error) {
			if err != nil {
				seen = look{err: err}
			}
			got(paths[i], seen)
		})
}

// entry returns the entry of a file, creating it if absent.
func (s *Source) entry(path string) *entry {
	e := s.files[path]
	if e == nil {
		e = &entry{}
		s.files[path] = e
	}
	return e
}

// whenHung returns the time to look again at a hung path; zero for other problems, which end only
// with a change of the files.
func (s *Source) whenHung(err error, now time.Time) time.Time {
	if errors.Is(err, errHung) || errors.Is(err, errTooManyHung) {
		return now.Add(s.waits.folder)
	}
	return time.Time{}
}

// lookForMissing records missing files, and returns the time to check them again.
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
		again = retry.Earlier(again, end)
	}
	return again
}

// missingWait returns the time after which a missing path counts as removed. The time is short for a
// single file whose folder exists, and long for a folder, because programs that replace a folder first
// remove the old folder.
func (s *Source) missingWait(l listing) time.Duration {
	if s.single && !l.adrift {
		return s.waits.file
	}
	return s.waits.folder
}

// paths returns the paths of all files in order. The paths of a settled listing are already sorted.
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

// refresh updates the entry of a file with its look, and returns the time to look again if the
// update was postponed.
func (s *Source) refresh(path string, e *entry, seen look, now time.Time) (again time.Time) {
	c, err := seen.content, seen.err
	switch {
	case seen.unchanged:
		e.err = e.decodeErr
		return time.Time{}
	case errors.Is(err, errVanished): // removed after the listing
		e.missingSince = now
		return now.Add(s.waits.file)
	case err != nil:
		if again = s.whenHung(err, now); again.IsZero() {
			e.trusted, e.busySince = false, time.Time{}
		}
		e.err = err
		return again
	case c.torn:
		return now.Add(s.waits.file)
	case c.writer == writerPresent && e.writing(c.stamp, now, s.waits.writer):
		return now.Add(s.waits.file)
	}
	e.busySince = time.Time{}
	s.decodeContent(path, e, c, now)
	return time.Time{}
}

// decodeContent decodes content unless the entry already holds it.
func (s *Source) decodeContent(path string, e *entry, c content, now time.Time) {
	sum := sha256.Sum256(c.data)
	if e.sum != sum {
		pods, err := s.decode(c.data, manifest.Origin{Kind: manifest.OriginFile, Location: path})
		switch {
		case err == nil && e.halfWritten(c.data):
			err = errHalfWritten
		case err == nil:
			e.pods, e.names, e.good = append([]*v1.Pod{}, pods...), nil, nil
			for _, pod := range pods {
				e.names = append(e.names, podName(pod))
			}
			if len(c.data) <= goodLimit {
				e.good = slices.Clone(c.data) // without the room that reading has left
			}
		}
		e.sum, e.decodeErr = sum, err
	}
	e.err = e.decodeErr
	e.stamp, e.trusted = c.stamp, now.Sub(c.stamp.changed()) > trustAfter && c.writer != writerPresent
}

// Glance takes only new files that are certainly complete: no process has the file open for
// writing, and it holds a valid pod with a name unknown in other files. Glance also records missing
// files. All other changes are left to a following Scan. A new pod thus need not wait for the
// debounce, which protects running pods.
//
// Glance must not be called concurrently with itself, Scan or Run, nor before the first Scan.
func (s *Source) Glance(ctx context.Context) (Result, error) {
	now := time.Now()
	unchanged := s.last
	unchanged.Changed, unchanged.Pods = false, slices.Clone(s.last.Pods)
	if s.settled && s.sameListing(ctx) {
		return unchanged, nil
	}
	l, err := s.list(ctx)
	if err != nil {
		return Result{}, err
	}
	if l.err != nil || !s.last.Ready || s.settled && sameNames(l, s.listed) {
		return unchanged, nil
	}
	s.listed, s.settled = l, false
	recheck := s.lookForMissing(l, now)
	names := s.files.names()
	isKnown := func(path string) bool { return s.files[path] != nil }
	err = s.lookAt(ctx, slices.DeleteFunc(slices.Clone(l.paths), isKnown), func(path string, seen look) {
		if e := s.glanceAt(path, seen, now); e != nil && !slices.ContainsFunc(e.names, func(name string) bool { return names[name] }) {
			s.files[path] = e
			for _, name := range e.names {
				names[name] = true
			}
		}
	})
	if err != nil {
		return Result{}, err
	}
	s.settled = len(s.files) == len(l.paths) && recheck.IsZero()
	pods, _ := s.files.choose(s.paths(), s.invalid, s.winners)
	return s.result(pods, recheck, true), nil
}

// sameNames reports whether two listings of a folder have the same names.
func sameNames(a, b listing) bool {
	return a.names != nil && slices.Equal(a.names, b.names)
}

// sameListing reports whether the folder certainly has the names of the last listing.
func (s *Source) sameListing(ctx context.Context) bool {
	listed, same := s.listed, false
	_ = each(ctx, &s.disk, []string{s.path}, func(int) bool { return s.fs.holds(s.path, listed) },
		func(_ int, result bool, _ error) { same = result })
	return same
}

func (s *Source) glanceAt(path string, seen look, now time.Time) *entry {
	c := seen.content
	if seen.err != nil || c.torn || c.writer != writerAbsent {
		return nil
	}
	e := &entry{}
	if s.decodeContent(path, e, c, now); e.err != nil {
		return nil
	}
	return e
}
