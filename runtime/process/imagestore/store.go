// SPDX-License-Identifier: Apache-2.0

package imagestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/keelson-dev/keelson/internal/keylock"
	"github.com/keelson-dev/keelson/internal/registry"
	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
)

// Source has images that are not unpacked. Package registry has a Source for registries, and
// package runtime/imagearchive a Source for a folder of archives.
type Source interface {
	// Image returns an image for the platform, and the digest under which the source has the image,
	// or "". An image that the source does not have is an error that wraps runtime.ErrNotFound. The
	// layers are fetched when they are read, until the end of ctx. auth is nil without credentials.
	// Calls are concurrent. No error contains credentials.
	Image(ctx context.Context, ref name.Reference, platform v1.Platform, auth *runtime.ImageAuth) (img v1.Image, digest string, err error)
}

// Options configure New.
type Options struct {
	// Root is the folder of the images, an absolute path. The first use makes the folder. All of
	// Root has to be on one file system. Required.
	Root string

	// Sources have the images for PullImage. The first source with the image is taken. An image in
	// the store stays usable if no source has the image any more, for example after the removal of
	// its archive.
	Sources []Source
}

// maxSize is the greatest size of an image, in bytes of its uncompressed layers.
const maxSize = 16 << 30

// maxEntries is the greatest number of files of an image, and of members of its layers.
const maxEntries = 1_000_000

// orphanAge is how long the complete layers of an interrupted pull are kept for the next try.
const orphanAge = 24 * time.Hour

// Store keeps unpacked images. All methods are safe for concurrent use, also by several Stores with
// the same Root.
type Store struct {
	root    string
	sources []Source

	imageLocks keylock.Locks[string] // by ID
	layerLocks keylock.Locks[string] // by digest

	mu struct {
		sync.Mutex
		swept bool
		held  map[string]int // layers of pulls under way
		pulls map[string]*progress
	}
}

// New returns a store, or an error that names the invalid option. New does not read the disk.
func New(opts Options) (*Store, error) {
	switch {
	case opts.Root == "":
		return nil, errors.New("imagestore: Options.Root is required")
	case !filepath.IsAbs(opts.Root):
		return nil, fmt.Errorf("imagestore: Options.Root: %q is not absolute", opts.Root)
	}
	s := &Store{root: filepath.Clean(opts.Root), sources: slices.Clone(opts.Sources)}
	s.mu.held, s.mu.pulls = map[string]int{}, map[string]*progress{}
	return s, nil
}

// Names of the folders below Options.Root, and of the content of an image's folder.
const (
	layersName = "layers"
	imagesName = "images"
	namesName  = "names"
	imageFile  = "image.json"
	rootfsName = "rootfs"
)

// config is the part of an image's configuration that containers use.
type config struct {
	Entrypoint, Cmd, Env         []string
	User, WorkingDir, StopSignal string
}

// imageRecord is the record of an image.
type imageRecord struct {
	ID     string
	Config config
	Layers []string // digests of the uncompressed layers, the lowest first
	Size   int64    // bytes of the files of all layers
	Owners []process.Owner
}

// dirs are the open folders of a store.
type dirs struct{ root, layers, images, names *os.Root }

func (d *dirs) close() {
	for _, dir := range []*os.Root{d.root, d.layers, d.images, d.names} {
		if dir != nil {
			_ = dir.Close()
		}
	}
}

// open opens the folders of the store, and makes missing folders. The first call removes the
// folders that a killed agent left half made.
func (s *Store) open() (_ *dirs, err error) {
	if err := os.MkdirAll(s.root, 0o700); err != nil {
		return nil, err
	}
	d := &dirs{}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.root, err = os.OpenRoot(s.root); err != nil {
		return nil, err
	}
	for _, sub := range []struct {
		name string
		dir  **os.Root
	}{{layersName, &d.layers}, {imagesName, &d.images}, {namesName, &d.names}} {
		if err = d.root.MkdirAll(sub.name, 0o700); err != nil {
			return nil, err
		}
		if *sub.dir, err = d.root.OpenRoot(sub.name); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	first := !s.mu.swept
	s.mu.swept = true
	s.mu.Unlock()
	if first {
		err = errors.Join(sweep(d.layers), sweep(d.images), s.pruneLayers(d, orphanAge))
	}
	return d, err
}

// folderOf returns the name of the folder of a digest such as "sha256:…".
func folderOf(digest string) (string, error) {
	h, err := v1.NewHash(digest)
	if err != nil || h.Algorithm != "sha256" {
		return "", fmt.Errorf("%.100q is not a digest by sha256", digest)
	}
	return h.Hex, nil
}

// ImageID implements runtime.Images.
func (s *Store) ImageID(_ context.Context, image string) (string, error) {
	ref, err := canonical(image)
	if err != nil {
		return "", err
	}
	d, err := s.open()
	if err != nil {
		return "", err
	}
	defer d.close()
	id, err := findName(d.names, ref.Name())
	if err != nil || id == "" {
		return "", err
	}
	if _, err := d.record(id); err != nil {
		if absent(err) {
			err = nil
		}
		return "", err
	}
	return id, nil
}

// record returns the record of an image. The error is fs.ErrNotExist for an unknown image.
func (d *dirs) record(id string) (imageRecord, error) {
	folder, err := folderOf(id)
	if err != nil {
		return imageRecord{}, err
	}
	return readJSON[imageRecord](d.images, path.Join(folder, imageFile))
}

// RootFS implements process.Images: the argument is an ID or a reference. The user of the image is
// looked up in the image.
func (s *Store) RootFS(ctx context.Context, image string) (process.RootFS, error) {
	id := image
	if _, err := folderOf(image); err != nil {
		if id, err = s.ImageID(ctx, image); err != nil {
			return process.RootFS{}, err
		}
	}
	if id == "" {
		return process.RootFS{}, runtime.ErrNotFound
	}
	d, err := s.open()
	if err != nil {
		return process.RootFS{}, err
	}
	defer d.close()
	rec, err := d.record(id)
	if err != nil {
		if absent(err) {
			err = runtime.ErrNotFound
		}
		return process.RootFS{}, err
	}
	return s.rootFS(d, &rec)
}

func (s *Store) rootFS(d *dirs, rec *imageRecord) (process.RootFS, error) {
	folder, err := folderOf(rec.ID)
	if err != nil {
		return process.RootFS{}, err
	}
	files, err := d.images.OpenRoot(path.Join(folder, rootfsName))
	if err != nil {
		return process.RootFS{}, err
	}
	defer files.Close()
	user, err := userOf(files, rec.Config.User)
	if err != nil {
		return process.RootFS{}, err
	}
	env := rec.Config.Env
	if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "HOME=") }) {
		env = append(slices.Clip(env), "HOME="+user.Home)
	}
	return process.RootFS{
		Dir:        filepath.Join(s.root, imagesName, folder, rootfsName),
		Entrypoint: rec.Config.Entrypoint, Cmd: rec.Config.Cmd, Env: env,
		User:       fmt.Sprintf("%d:%d", user.Uid, user.Gid),
		WorkingDir: rec.Config.WorkingDir, StopSignal: rec.Config.StopSignal, Owners: rec.Owners,
	}, nil
}

// Image is an image in the store.
type Image struct {
	ID          string   // digest of the configuration
	RepoTags    []string // names with a tag
	RepoDigests []string // names with a digest
	Size        uint64   // bytes of the files; shared layers count for every image
}

// ListImages returns every image, ordered by ID.
func (s *Store) ListImages(context.Context) ([]Image, error) {
	d, err := s.open()
	if err != nil {
		return nil, err
	}
	defer d.close()
	names, err := listNames(d.names)
	if err != nil {
		return nil, err
	}
	records, err := d.records()
	out := make([]Image, 0, len(records))
	for _, rec := range records {
		image := Image{ID: rec.ID, Size: uint64(rec.Size)}
		for _, n := range names[rec.ID] {
			if strings.Contains(n, "@") {
				image.RepoDigests = append(image.RepoDigests, registry.Familiar(n))
			} else {
				image.RepoTags = append(image.RepoTags, registry.Familiar(n))
			}
		}
		slices.Sort(image.RepoTags)
		slices.Sort(image.RepoDigests)
		out = append(out, image)
	}
	return out, err
}

// records returns the records of all images, ordered by ID. An image that is being removed, and an
// image with a broken record, is left out.
func (d *dirs) records() ([]imageRecord, error) {
	found, err := list(d.images)
	if err != nil {
		return nil, err
	}
	var out []imageRecord
	for _, folder := range found {
		if strings.HasPrefix(folder, draftPrefix) {
			continue
		}
		rec, err := d.record("sha256:" + folder)
		if absent(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("image sha256:%s: %w", folder, err)
		}
		out = append(out, rec)
	}
	slices.SortFunc(out, func(a, b imageRecord) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// RemoveImage removes an image with all its names, and layers without an image. An absent image is
// no error. On return, the image is gone or intact, also after a power cut.
func (s *Store) RemoveImage(ctx context.Context, id string) error {
	folder, err := folderOf(id)
	if err != nil {
		return fmt.Errorf("remove image: %w", err)
	}
	unlock, err := s.imageLocks.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	d, err := s.open()
	if err != nil {
		return err
	}
	defer d.close()
	if err = errors.Join(discard(d.images, folder), removeNames(d.names, id), s.pruneLayers(d, 0)); err != nil {
		return fmt.Errorf("remove image %s: %w", id, err)
	}
	return nil
}

// pruneLayers removes layers without an image that are at least as old as age. Files of images are
// hard links, so the removal of a layer harms no image. Layers of pulls under way stay.
func (s *Store) pruneLayers(d *dirs, age time.Duration) error {
	records, err := d.records()
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, rec := range records {
		for _, digest := range rec.Layers {
			used[strings.TrimPrefix(digest, "sha256:")] = true
		}
	}
	found, err := list(d.layers)
	errs := []error{err}
	for _, folder := range found {
		info, err := d.layers.Lstat(folder)
		if strings.HasPrefix(folder, draftPrefix) || used[folder] || err != nil || time.Since(info.ModTime()) < age {
			continue
		}
		hidden, err := s.hideLayer(d, folder)
		if err == nil && hidden != "" {
			err = tree.RemoveAll(d.layers, hidden)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// hideLayer takes a layer away, unless a pull holds the layer.
func (s *Store) hideLayer(d *dirs, folder string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.held["sha256:"+folder] > 0 {
		return "", nil
	}
	return hide(d.layers, folder)
}

// hold keeps layers from being removed until release.
func (s *Store) hold(layers []string) (release func()) {
	add := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, digest := range layers {
			if s.mu.held[digest] += n; s.mu.held[digest] == 0 {
				delete(s.mu.held, digest)
			}
		}
	}
	add(1)
	return func() { add(-1) }
}

// platform is the platform of the images that can run here.
func platform() v1.Platform {
	p := v1.Platform{OS: "linux", Architecture: goruntime.GOARCH}
	switch p.Architecture {
	case "arm":
		p.Variant = "v7"
	case "arm64":
		p.Variant = "v8"
	}
	return p
}
