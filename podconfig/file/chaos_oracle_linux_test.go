// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// oracle knows the permitted changes of a file source. It looks at the files in a simple way after
// each step of an edit, without knowing the views of the source in between. So until the files are
// at rest, it keeps for each file every content that the source may regard as its last valid
// content.
type oracle struct {
	dir string

	mu sync.Mutex
	// files are the files present when all files were last at rest, or since.
	files  map[string]*sighting
	folder absence
	// merged are the images of the pods merged when all files were last at rest.
	merged map[string]string
	// sure are the pods that must be merged while no file of theirs is missing for the debounce.
	sure    map[string]bool
	fault   string
	decoded map[string]content // by text, as decoding takes long
}

// sighting is the last view of a file.
type sighting struct {
	content
	exists  bool
	absence absence
	// good are the possible images of the last valid content.
	good map[string]bool
}

// absence holds the time since which a file is missing. A return counts only if it lasted long
// enough for the source to see it.
type absence struct{ since, back time.Time }

func (a *absence) gone(now time.Time) {
	if a.since.IsZero() {
		a.since = now
	}
	a.back = time.Time{}
}

func (a *absence) there(now time.Time) {
	switch {
	case a.since.IsZero():
	case a.back.IsZero():
		a.back = now
	case now.Sub(a.back) > chaosPeriod:
		*a = absence{}
	}
}

// lasts reports whether the absence has exceeded limit.
func (a *absence) lasts(limit time.Duration, now time.Time) bool {
	return !a.since.IsZero() && a.back.IsZero() && now.Sub(a.since) >= limit
}

// content is the decoded content of a file.
type content struct {
	valid bool
	// doubtful content is valid, but may be a truncated form of other content.
	doubtful bool
	image    string
}

func newOracle(dir string) *oracle {
	return &oracle{dir: dir, files: map[string]*sighting{}, sure: map[string]bool{}, decoded: map[string]content{}}
}

// podOf returns the name of the pod in a file: the letter before its extension.
func podOf(file string) string {
	stem := strings.TrimSuffix(file, ".yaml")
	return stem[len(stem)-1:]
}

// look reads the current files.
func (o *oracle) look(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	entries, err := os.ReadDir(o.dir)
	if err != nil {
		o.folder.gone(now)
		for _, f := range o.files {
			if !f.absence.since.IsZero() { // missing before, and missing again
				f.absence.gone(now)
			}
		}
		o.expire(now)
		return
	}
	there := map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || !strings.HasSuffix(name, ".yaml") {
			continue
		}
		there[name] = true
		if o.files[name] == nil {
			o.files[name] = &sighting{good: map[string]bool{}}
		}
		o.see(name, now)
	}
	for name, f := range o.files {
		if !there[name] {
			f.exists = false
			f.absence.gone(now)
			if since := o.folder.since; !since.IsZero() && since.Before(f.absence.since) {
				f.absence.since = since // removed with the folder
			}
		}
	}
	o.folder.there(now)
	o.expire(now)
}

func (o *oracle) see(name string, now time.Time) {
	f := o.files[name]
	path := filepath.Join(o.dir, name)
	f.exists, f.content = true, content{}
	f.absence.there(now)
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return
	}
	f.content = o.decode(path, string(data))
	if f.valid {
		f.good[f.image] = true
	}
}

func (o *oracle) decode(path, text string) content {
	key := path + "\x00" + text
	c, known := o.decoded[key]
	if known {
		return c
	}
	p, err := chaosDecoder.Pod([]byte(text), manifest.Origin{Kind: manifest.OriginFile, Location: path})
	if err == nil && p.Name == podOf(filepath.Base(path))+"-n" {
		c = content{valid: true, image: p.Spec.Containers[0].Image, doubtful: !strings.HasSuffix(text, "\n")}
	}
	if len(o.decoded) > 10_000 {
		clear(o.decoded)
	}
	o.decoded[key] = c
	return c
}

// mayRun reports whether a pod with the image may be merged.
func (o *oracle) mayRun(pod, image string) bool {
	if o.merged[pod] == image {
		return true
	}
	for name, f := range o.files {
		if podOf(name) == pod && f.good[image] {
			return true
		}
	}
	return false
}

// expire drops files missing for so long that their pods may end.
func (o *oracle) expire(now time.Time) {
	for name := range o.files {
		if o.gone(name, now) {
			o.sure[podOf(name)] = false
		}
	}
}

// gone reports whether a file has been missing for the debounce, or its folder for ten times the
// debounce.
func (o *oracle) gone(name string, now time.Time) bool {
	if o.folder.lasts(0, now) {
		return o.files[name].absence.lasts(10*chaosDebounce, now) || o.folder.lasts(10*chaosDebounce, now)
	}
	return o.files[name].absence.lasts(chaosDebounce, now)
}

// hear checks the merged pods while the files may be changing.
func (o *oracle) hear(merged map[string]string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.expire(now)
	for pod, sure := range o.sure {
		if _, there := merged[pod]; sure && !there {
			o.accuse("pod %s was removed although its file was there all the time", pod)
		}
	}
	for pod, image := range merged {
		if !o.mayRun(pod, image) {
			o.accuse("pod %s=%s was told, which no file has held", pod, image)
		}
	}
}

// settle checks the merged pods after the files were at rest for long, and forgets other
// possibilities.
func (o *oracle) settle(merged map[string]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, pod := range []string{"a", "b", "c", "d", "e"} {
		image, there := merged[pod]
		valid, unclear := o.claims(pod)
		switch {
		case len(valid)+unclear == 0 && there:
			o.accuse("pod %s=%s is still merged, and it has no file", pod, image)
		case !there && len(valid) > 0:
			o.accuse("pod %s is not merged, and its files hold %v", pod, valid)
		case !there && o.sure[pod]:
			o.accuse("pod %s is not merged, and its file was there all the time", pod)
		case there && unclear == 0 && !slices.Contains(valid, image):
			o.accuse("pod %s=%s is merged, and its files hold %v", pod, image, valid)
		case there && !o.mayRun(pod, image):
			o.accuse("pod %s=%s is merged, which no file has held", pod, image)
		}
		o.sure[pod] = there
	}
	o.merged = merged
	maps.DeleteFunc(o.files, func(_ string, f *sighting) bool { return !f.exists })
	for _, f := range o.files {
		if f.valid && !f.doubtful {
			f.good = map[string]bool{f.image: true}
		}
	}
}

// claims returns the images in the files of a pod, and the number of files with unclear content.
func (o *oracle) claims(pod string) (valid []string, unclear int) {
	for name, f := range o.files {
		if podOf(name) != pod || !f.exists || !o.folder.since.IsZero() && o.folder.back.IsZero() {
			continue
		}
		if f.valid && !f.doubtful {
			valid = append(valid, f.image)
			continue
		}
		unclear++
	}
	return valid, unclear
}

func (o *oracle) accuse(format string, args ...any) {
	if o.fault == "" {
		o.fault = fmt.Sprintf(format, args...)
	}
}

// violation returns the first fault, "" without a fault.
func (o *oracle) violation() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fault
}
