// SPDX-License-Identifier: Apache-2.0

package imagestore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// Bounds of the documents of an image.
const (
	maxConfig = 8 << 20 // bytes
	maxLayers = 500
)

// PullImage implements runtime.Images. Pulls of equal layers at the same time are one download. The
// complete layers of a failed pull are kept for a day, so that the next pull goes on behind them.
func (s *Store) PullImage(ctx context.Context, image string, auth *runtime.ImageAuth) (string, error) {
	ref, err := canonical(image)
	if err != nil {
		return "", err
	}
	p := &progress{}
	defer s.track(ref.Name(), p)()
	var missing []error
	for _, source := range s.sources {
		img, digest, err := source.Image(ctx, ref, platform(), auth)
		if errors.Is(err, runtime.ErrNotFound) {
			missing = append(missing, err)
			continue
		}
		if err != nil {
			return "", err
		}
		names := []string{ref.Name()}
		if digest != "" {
			names = append(names, ref.Context().Digest(digest).Name())
		}
		return s.add(ctx, img, p, names...)
	}
	id, err := s.ImageID(ctx, image)
	if err == nil && id == "" {
		err = errors.Join(missing...)
		if len(missing) == 0 {
			err = fmt.Errorf("image %s: there is no source to pull from: %w", ref.Name(), runtime.ErrNotFound)
		}
	}
	return id, err
}

// Add unpacks an image, unless the store has the image, makes the names refer to the image, and
// returns its ID. A name that referred to another image is moved. After an error the names are as
// before, or some are moved.
func (s *Store) Add(ctx context.Context, img v1.Image, names ...string) (id string, err error) {
	return s.add(ctx, img, &progress{}, names...)
}

func (s *Store) add(ctx context.Context, img v1.Image, p *progress, names ...string) (id string, err error) {
	full := make([]string, 0, len(names))
	for _, n := range names {
		ref, err := canonical(n)
		if err != nil {
			return "", err
		}
		full = append(full, ref.Name())
	}
	rec, err := describe(img)
	if err != nil {
		return "", err
	}
	unlock, err := s.imageLocks.Lock(ctx, rec.ID)
	if err != nil {
		return "", err
	}
	defer unlock()
	d, err := s.open()
	if err != nil {
		return "", err
	}
	defer d.close()
	if err := s.ensure(ctx, d, img, p, rec); err != nil {
		return "", err
	}
	for _, n := range full {
		if err := saveName(d.names, n, rec.ID); err != nil {
			return "", fmt.Errorf("name %s: %w", n, err)
		}
	}
	return rec.ID, nil
}

// describe returns the record of an image without Size, from the manifest and the configuration.
func describe(img v1.Image) (imageRecord, error) {
	m, err := img.Manifest()
	switch {
	case err != nil:
		return imageRecord{}, fmt.Errorf("manifest: %w", err)
	case m.Config.Size > maxConfig:
		return imageRecord{}, fmt.Errorf("configuration: %d bytes, more than %d", m.Config.Size, maxConfig)
	case len(m.Layers) > maxLayers:
		return imageRecord{}, fmt.Errorf("%d layers, more than %d", len(m.Layers), maxLayers)
	}
	raw, err := img.RawConfigFile()
	if err != nil {
		return imageRecord{}, fmt.Errorf("configuration: %w", err)
	}
	sum := sha256.Sum256(raw)
	id := "sha256:" + hex.EncodeToString(sum[:])
	if id != m.Config.Digest.String() {
		return imageRecord{}, fmt.Errorf("configuration: its content has the digest %s, and not %s", id, m.Config.Digest)
	}
	var file v1.ConfigFile
	if err := json.Unmarshal(raw, &file); err != nil {
		return imageRecord{}, fmt.Errorf("configuration: %w", err)
	}
	here := platform()
	switch {
	case file.OS != here.OS || file.Architecture != here.Architecture:
		return imageRecord{}, fmt.Errorf("the image is for %q on %q, and this node is %s on %s", file.OS, file.Architecture, here.OS, here.Architecture)
	case len(file.RootFS.DiffIDs) != len(m.Layers):
		return imageRecord{}, fmt.Errorf("the configuration has %d layers, and the manifest %d", len(file.RootFS.DiffIDs), len(m.Layers))
	}
	rec := imageRecord{ID: id, Config: config{
		Entrypoint: file.Config.Entrypoint, Cmd: file.Config.Cmd, Env: file.Config.Env,
		User: file.Config.User, WorkingDir: file.Config.WorkingDir, StopSignal: file.Config.StopSignal,
	}}
	for _, diffID := range file.RootFS.DiffIDs {
		if _, err := folderOf(diffID.String()); err != nil {
			return imageRecord{}, fmt.Errorf("layer: %w", err)
		}
		rec.Layers = append(rec.Layers, diffID.String())
	}
	return rec, nil
}

// ensure unpacks an image that the store does not have. The caller holds the image's lock.
func (s *Store) ensure(ctx context.Context, d *dirs, img v1.Image, p *progress, rec imageRecord) error {
	switch _, err := d.record(rec.ID); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		// A broken record, after a fault of the disk: the image is unpacked anew.
		folder, err := folderOf(rec.ID)
		if err == nil {
			err = discard(d.images, folder)
		}
		if err != nil {
			return err
		}
	}
	defer s.hold(rec.Layers)()
	sources, err := img.Layers()
	if err != nil {
		return err
	}
	if len(sources) != len(rec.Layers) {
		return fmt.Errorf("%d layers, and not %d", len(sources), len(rec.Layers))
	}
	if sources, err = p.count(sources); err != nil {
		return err
	}
	files := newTree(maxEntries)
	left := &budget{bytes: maxSize, entries: maxEntries}
	for i, source := range sources {
		l, err := s.ensureLayer(ctx, d, source, rec.Layers[i], left)
		if err == nil {
			err = files.apply(i, l.Entries)
		}
		if err != nil {
			return fmt.Errorf("layer %s: %w", rec.Layers[i], err)
		}
		rec.Size += l.Size
		p.complete(source)
	}
	if err := files.complete(len(sources), rec.Config.WorkingDir); err != nil {
		return err
	}
	return s.assemble(d, files, rec)
}

// ensureLayer unpacks a layer that the store does not have.
func (s *Store) ensureLayer(ctx context.Context, d *dirs, source v1.Layer, digest string, left *budget) (layer, error) {
	unlock, err := s.layerLocks.Lock(ctx, digest)
	if err != nil {
		return layer{}, err
	}
	defer unlock()
	folder, err := folderOf(digest)
	if err != nil {
		return layer{}, err
	}
	l, err := readJSON[layer](d.layers, path.Join(folder, entriesFile))
	if err == nil {
		return l, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		if err := discard(d.layers, folder); err != nil {
			return layer{}, err
		}
	}
	in, err := source.Uncompressed()
	if err != nil {
		return layer{}, err
	}
	defer in.Close()
	err = build(d.layers, folder, func(dir *os.Root) error {
		l, err = unpack(ctx, dir, in, digest, left)
		return err
	})
	return l, err
}

// assemble makes the folder of an image.
func (s *Store) assemble(d *dirs, files *fileTree, rec imageRecord) error {
	folder, err := folderOf(rec.ID)
	if err != nil {
		return err
	}
	return build(d.images, folder, func(dir *os.Root) error {
		if err := dir.Mkdir(rootfsName, 0o700); err != nil {
			return err
		}
		rootfs, err := dir.OpenRoot(rootfsName)
		if err != nil {
			return err
		}
		defer rootfs.Close()
		b := builder{store: d.root, root: path.Join(imagesName, path.Base(dir.Name()), rootfsName)}
		for _, digest := range rec.Layers {
			from, err := folderOf(digest)
			if err != nil {
				return err
			}
			b.from = append(b.from, path.Join(layersName, from))
		}
		if err := b.build(rootfs, "", files.root); err != nil {
			return err
		}
		rec.Owners = b.noted()
		raw, err := json.Marshal(rec)
		if err != nil {
			return err
		}
		return dir.WriteFile(imageFile, raw, 0o600)
	})
}

// build makes the folder name in parent with the content of fill, atomically. If another process
// was faster, its folder stays.
func build(parent *os.Root, name string, fill func(dir *os.Root) error) (err error) {
	d, err := newDraft(parent)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.discard()) }()
	if err := fill(d.dir); err != nil {
		return err
	}
	err = d.publish(name)
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return err
}
