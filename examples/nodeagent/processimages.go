// SPDX-License-Identifier: Apache-2.0

//go:build !noimages

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/images"
	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/imagegc/statfs"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/imagearchive"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/runtime/process/imagestore"
	"github.com/keelson-dev/keelson/runtime/process/imagestore/registry"
)

// imageFlags let the process backend run images.
type imageFlags struct{ on bool }

func (i *imageFlags) register(set *pflag.FlagSet) {
	set.BoolVar(&i.on, "images", false, "with the process backend: run the images of containers, without a container engine and root, from --image-archives and from registries; implies --confine (docs/images.md)")
}

// complete validates the flag. Containers of images need all walls.
func (i *imageFlags) complete(f *flags, set *pflag.FlagSet) error {
	switch {
	case !i.on:
		return nil
	case f.endpoint != processEndpoint:
		return errors.New("--images is for the process backend; a container runtime always runs images")
	case set.Changed("confine") && !f.confine:
		return errors.New("--images needs --confine: the files of an image are mounted in namespaces")
	}
	f.confine = true
	return nil
}

// open returns the process backend, with a store of images if the flag is set.
func (i *imageFlags) open(f flags, opts process.Options) (runtime.Runtime, error) {
	if !i.on {
		return process.New(opts)
	}
	var sources []imagestore.Source
	if f.archives.dir != "" {
		archives, err := imagearchive.NewFolder(f.archives.dir)
		if err != nil {
			return nil, fmt.Errorf("--image-archives: %w", err)
		}
		sources = append(sources, archives)
	}
	if err := os.MkdirAll(storeDir(f), 0o700); err != nil {
		return nil, err
	}
	sources = append(sources, registry.New(registry.Options{Parts: filepath.Join(storeDir(f), "parts")}))
	store, err := imagestore.New(imagestore.Options{Root: storeDir(f), Sources: sources})
	if err != nil {
		return nil, err
	}
	opts.Images = store
	backend, err := process.New(opts)
	if err != nil {
		return nil, fmt.Errorf("--images: %w", err)
	}
	return imagestore.Runtime{Runtime: backend, Store: store}, nil
}

// storeDir is the folder of the store of images.
func storeDir(f flags) string { return filepath.Join(f.root, "imagestore") }

// storeGC returns the options for garbage collection of the store's images, nil for a runtime
// without a store.
func storeGC(f flags, rt runtime.Runtime) *images.GC {
	backend, ok := rt.(imagestore.Runtime)
	if !ok {
		return nil
	}
	return imageGC(f, storedImages{backend.Store}, backend, statfs.Path(storeDir(f)))
}

// storedImages adapts a store of images to package imagegc.
type storedImages struct{ store *imagestore.Store }

// ListImages implements imagegc.ImageService.
func (s storedImages) ListImages(ctx context.Context) ([]imagegc.Image, error) {
	listed, err := s.store.ListImages(ctx)
	all := make([]imagegc.Image, 0, len(listed))
	for _, i := range listed {
		all = append(all, imagegc.Image{ID: i.ID, RepoTags: i.RepoTags, RepoDigests: i.RepoDigests, Size: i.Size})
	}
	return all, err
}

// RemoveImage implements imagegc.ImageService.
func (s storedImages) RemoveImage(ctx context.Context, image imagegc.Image) error {
	return s.store.RemoveImage(ctx, image.ID)
}
