// SPDX-License-Identifier: Apache-2.0

package imagearchive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// Folder finds images in the archives of a folder. It keeps the names of the archives that did not
// change, and no open file.
type Folder struct {
	path string

	mu struct {
		sync.Mutex
		listed map[string]listing // by file name
	}
}

// listing has the names in an archive, as long as the file is the same.
type listing struct {
	size     int64
	modified time.Time
	names    map[string]int // canonical name to the index in Archive.Images
	err      error
}

// NewFolder returns a Folder. The path is absolute, and the folder may be made later.
func NewFolder(path string) (*Folder, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("imagearchive: folder %q is not absolute", path)
	}
	return &Folder{path: filepath.Clean(path)}, nil
}

// Image returns the image with the name for the platform. If several archives have the name, the
// last by the names of the files is taken. digest is Image.Digest. An image that no archive has is
// an error that wraps runtime.ErrNotFound, and that lists the archives that cannot be read. The
// credentials are not used.
func (f *Folder) Image(ctx context.Context, ref name.Reference, platform v1.Platform, _ *runtime.ImageAuth) (img v1.Image, digest string, err error) {
	entries, err := os.ReadDir(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	var found string
	var at int
	var unreadable []error
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil, "", context.Cause(ctx)
		}
		if strings.HasPrefix(e.Name(), ".") || strings.HasSuffix(e.Name(), ".part") {
			continue
		}
		l := f.list(e)
		if l.err != nil {
			unreadable = append(unreadable, l.err)
		}
		if i, ok := l.names[ref.Name()]; ok {
			found, at = e.Name(), i
		}
	}
	f.forget(entries)
	if found == "" {
		return nil, "", errors.Join(fmt.Errorf("no archive in %s has image %s: %w", f.path, ref.Name(), runtime.ErrNotFound), errors.Join(unreadable...))
	}
	archive, err := Open(filepath.Join(f.path, found))
	if err != nil {
		return nil, "", err
	}
	if at >= len(archive.Images()) {
		return nil, "", fmt.Errorf("image archive %s changes while it is read", found)
	}
	image := archive.Images()[at]
	img, err = image.For(platform)
	if err != nil {
		return nil, "", fmt.Errorf("image archive %s: %w", found, err)
	}
	return img, image.Digest, nil
}

// list returns the names in an archive.
func (f *Folder) list(e fs.DirEntry) listing {
	path := filepath.Join(f.path, e.Name())
	info, err := os.Stat(path)
	if err != nil {
		return listing{err: err}
	}
	f.mu.Lock()
	known, ok := f.mu.listed[e.Name()]
	f.mu.Unlock()
	if ok && known.size == info.Size() && known.modified.Equal(info.ModTime()) && !info.IsDir() {
		return known
	}
	l := listing{size: info.Size(), modified: info.ModTime(), names: map[string]int{}}
	archive, err := Open(path)
	if err != nil {
		l.err = err
	} else {
		for i, image := range archive.Images() {
			for _, n := range image.canonical() {
				l.names[n] = i
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.listed == nil {
		f.mu.listed = map[string]listing{}
	}
	f.mu.listed[e.Name()] = l
	return l
}

// forget drops the names of removed archives.
func (f *Folder) forget(entries []fs.DirEntry) {
	there := map[string]bool{}
	for _, e := range entries {
		there[e.Name()] = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range f.mu.listed {
		if !there[n] {
			delete(f.mu.listed, n)
		}
	}
}

// canonical returns the complete forms of an image's names, each also with the digest. A name that
// is no reference is left out.
func (i *Image) canonical() []string {
	var out []string
	for _, n := range i.Names {
		ref, err := name.ParseReference(n, name.WeakValidation)
		if err != nil {
			continue
		}
		out = append(out, ref.Name())
		if i.Digest != "" {
			out = append(out, ref.Context().Digest(i.Digest).Name())
		}
	}
	return out
}
