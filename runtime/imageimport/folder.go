// SPDX-License-Identifier: Apache-2.0

package imageimport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/runtime/imagearchive"
)

// Importer loads images into a container runtime.
type Importer interface {
	// Import loads the images of an archive under their names, and pins them: the runtime tells
	// programs that collect images to keep them. Import is repeated for the same content at each start.
	// After an error it is called again after Options.Period, or when the file changes.
	Import(ctx context.Context, a *imagearchive.Archive) error
	// Unpin ends the pin of images. The images stay. A missing image is no error.
	Unpin(ctx context.Context, names []string) error
}

// Options configure a Folder.
type Options struct {
	// Dir is the absolute path of the folder. It need not exist. Required.
	Dir string
	// Importer loads the images. Required.
	Importer Importer
	// Hints starts to watch a folder, as fsnotify.Hinter of package podconfig/file/fsnotify does. Defaults to
	// none: changes are noticed within Period.
	Hints func(ctx context.Context, dir string) (<-chan struct{}, error)
	// Period is the time between two looks at the folder. Defaults to 20 s.
	Period time.Duration
	// Imported is called after each import. Defaults to no call.
	Imported func(a *imagearchive.Archive)
	// Problem is called once for each new problem with a file or the folder, and with nil at its end.
	// Defaults to no call.
	Problem func(path string, err error)
}

// settle is how long a file must be unchanged before it is read.
const settle = 2 * time.Second

// Folder is a folder of archives. Scan and Run are called from a single goroutine.
type Folder struct {
	Options
	files map[string]*state

	mu struct {
		sync.Mutex
		pinned map[string][]string // names of images by path
	}
}

// state is the state of a file.
type state struct {
	size     int64
	changed  time.Time
	refused  bool // its content is not used
	imported bool
	problem  string
	again    time.Time // after an error of the importer
}

// New validates o, and returns a Folder. It does not access the disk.
func New(o Options) (*Folder, error) {
	switch {
	case !filepath.IsAbs(o.Dir):
		return nil, fmt.Errorf("imageimport: Options.Dir %q: want an absolute path", o.Dir)
	case o.Importer == nil:
		return nil, errors.New("imageimport: Options.Importer is required")
	case o.Period < 0:
		return nil, errors.New("imageimport: Options.Period must not be negative")
	}
	o.Period = cmp.Or(o.Period, 20*time.Second)
	if o.Imported == nil {
		o.Imported = func(*imagearchive.Archive) {}
	}
	if o.Problem == nil {
		o.Problem = func(string, error) {}
	}
	f := &Folder{Options: o, files: map[string]*state{}}
	f.mu.pinned = map[string][]string{}
	return f, nil
}

// Pinned returns the names of the images of all files, for image collection. It is safe for concurrent
// use.
func (f *Folder) Pinned() (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, of := range f.mu.pinned {
		names = append(names, of...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Run looks at the folder until ctx ends, and returns nil.
func (f *Folder) Run(ctx context.Context) error {
	var hints <-chan struct{}
	for again := f.Scan(ctx); ; {
		if hints == nil && f.Hints != nil {
			var err error
			if hints, err = f.Hints(ctx, f.Dir); err != nil {
				hints = nil // the folder is looked at every Period
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-hints:
			if !open {
				hints = nil
			}
		case <-time.After(time.Until(again)):
		}
		again = f.Scan(ctx)
	}
}

// Scan imports the archives that are new or have changed, and unpins the images of removed files. It
// returns the time of the next necessary Scan.
func (f *Folder) Scan(ctx context.Context) (again time.Time) {
	now := time.Now()
	again = now.Add(f.Period)
	entries, err := os.ReadDir(f.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		entries, err = nil, nil
	}
	f.report(f.Dir, err)
	if err != nil {
		return again
	}
	found := map[string]bool{}
	for _, e := range entries {
		if !isArchive(e.Name()) {
			continue
		}
		path := filepath.Join(f.Dir, e.Name())
		found[path] = true
		if at := f.look(ctx, path, now); !at.IsZero() && at.Before(again) {
			again = at
		}
	}
	for path, s := range f.files {
		if path == f.Dir || found[path] || ctx.Err() != nil {
			continue
		}
		if err := f.unpin(ctx, path); err != nil {
			f.report(path, err)
			continue
		}
		if s.problem != "" {
			f.Problem(path, nil)
		}
		delete(f.files, path)
	}
	return again
}

// isArchive reports whether a file of this name is read.
func isArchive(name string) bool {
	if strings.HasPrefix(name, ".") {
		return false
	}
	return slices.ContainsFunc([]string{".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst"}, func(end string) bool { return strings.HasSuffix(name, end) })
}

// look imports a file if necessary, and returns the time to look again, zero for no particular time.
func (f *Folder) look(ctx context.Context, path string, now time.Time) time.Time {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		f.report(path, err)
		return time.Time{}
	}
	s := f.state(path)
	if s.size != info.Size() || !s.changed.Equal(info.ModTime()) {
		s.size, s.changed, s.imported, s.refused, s.again = info.Size(), info.ModTime(), false, false, time.Time{}
	}
	quiet := s.changed.Add(settle)
	switch {
	case s.imported, s.refused:
		return time.Time{}
	case quiet.After(now) && !quiet.After(now.Add(settle)): // a time in the future is no reason to wait
		return quiet
	case s.again.After(now):
		return s.again
	}
	a, err := imagearchive.Verify(ctx, path)
	if err == nil && len(a.Names()) == 0 {
		err = fmt.Errorf("image archive %s: %w: no image has a name: save the image by its name, not by its ID", path, imagearchive.ErrInvalid)
	}
	if err == nil {
		if err = f.load(ctx, a); err != nil {
			s.again = now.Add(f.Period)
		}
	}
	s.imported, s.refused = err == nil, errors.Is(err, imagearchive.ErrInvalid)
	f.report(path, err)
	return s.again
}

// load imports an archive, and pins its images.
func (f *Folder) load(ctx context.Context, a *imagearchive.Archive) error {
	if err := f.Importer.Import(ctx, a); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	f.mu.Lock()
	before := f.mu.pinned[a.Path()]
	f.mu.pinned[a.Path()] = a.Names()
	f.mu.Unlock()
	f.Imported(a)
	return f.unpinOthers(ctx, before)
}

// unpin ends the pins of a removed file.
func (f *Folder) unpin(ctx context.Context, path string) error {
	f.mu.Lock()
	before := f.mu.pinned[path]
	delete(f.mu.pinned, path)
	f.mu.Unlock()
	err := f.unpinOthers(ctx, before)
	if err != nil {
		f.mu.Lock()
		f.mu.pinned[path] = before
		f.mu.Unlock()
	}
	return err
}

// unpinOthers ends the pins of images that no file has any more.
func (f *Folder) unpinOthers(ctx context.Context, names []string) error {
	still := f.Pinned()
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(still, name) })
	if len(names) == 0 {
		return nil
	}
	if err := f.Importer.Unpin(ctx, names); err != nil {
		return fmt.Errorf("unpin: %w", err)
	}
	return nil
}

func (f *Folder) state(path string) *state {
	s := f.files[path]
	if s == nil {
		s = &state{}
		f.files[path] = s
	}
	return s
}

// report tells a change of a file's problem.
func (f *Folder) report(path string, err error) {
	s, text := f.state(path), ""
	if err != nil {
		text = err.Error()
	}
	if s.problem != text {
		s.problem = text
		f.Problem(path, err)
	}
}
