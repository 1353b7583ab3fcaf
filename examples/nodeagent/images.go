// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/images"
	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/imagegc/recordfile"
	"github.com/keelson-dev/keelson/imagegc/statfs"
	"github.com/keelson-dev/keelson/runtime/cri"
)

// pullFlags limit concurrent pulls of images. Names and meaning are those of the kubelet's
// configuration (1.36), which pulls one image at a time by default.
type pullFlags struct {
	oneByOne bool
	limit    int
}

func (p *pullFlags) register(set *pflag.FlagSet) {
	set.BoolVar(&p.oneByOne, "serialize-image-pulls", false, "with a container runtime or --images: pull one image at a time; an explicit false without --max-parallel-image-pulls = no limit")
	set.IntVar(&p.limit, "max-parallel-image-pulls", 4, "with a container runtime or --images: how many images are pulled at the same time, over all pods")
}

// complete validates the flags, and sets the limit from both.
func (p *pullFlags) complete(set *pflag.FlagSet) error {
	limited := set.Changed("max-parallel-image-pulls")
	switch {
	case p.limit < 1:
		return fmt.Errorf("--max-parallel-image-pulls %d: want 1 or more", p.limit)
	case p.oneByOne && limited && p.limit > 1:
		return fmt.Errorf("--max-parallel-image-pulls %d and --serialize-image-pulls: give one of them", p.limit)
	case p.oneByOne:
		p.limit = 1
	case set.Changed("serialize-image-pulls") && !limited:
		p.limit = math.MaxInt32
	}
	return nil
}

// imageGC returns the options for garbage collection of images.
func imageGC(f flags, service imagegc.ImageService, inUse imagegc.InUse, disk imagegc.DiskUsage) *images.GC {
	f.imageMin = cmp.Or(f.imageMin, -1) // no minimum; 0 would select imagegc's default
	return &images.GC{
		Images: service, InUse: inUse, Disk: disk,
		Policy: imagegc.Policy{HighPercent: f.imageHigh, LowPercent: f.imageLow, MinAge: f.imageMin, MaxAge: f.imageMax, Protected: f.protected()},
		Store:  recordfile.New(filepath.Join(f.root, "images.json")),
		DryRun: f.imageDry, Interval: f.imageWait,
	}
}

// criGC returns the options for garbage collection of a container runtime's images.
func criGC(f flags, backend cri.Backend) *images.GC {
	return imageGC(f, criImages{backend}, backend, statfs.Func(func(ctx context.Context) (string, error) {
		first, err := imageFileSystem(ctx, backend)
		return first.Mountpoint, err
	}))
}

// imageFileSystem returns the first file system with images of a container runtime, as the kubelet does.
func imageFileSystem(ctx context.Context, backend cri.Images) (cri.FsUsage, error) {
	systems, err := backend.ImageFsInfo(ctx)
	if err != nil || len(systems) == 0 {
		return cri.FsUsage{}, cmp.Or(err, errors.New("the runtime does not say where images are"))
	}
	return systems[0], nil
}

// criImages adapts the images of a container runtime to package imagegc.
type criImages struct{ cri.Images }

// ListImages implements imagegc.ImageService.
func (c criImages) ListImages(ctx context.Context) ([]imagegc.Image, error) {
	listed, err := c.Images.ListImages(ctx)
	all := make([]imagegc.Image, 0, len(listed))
	for _, i := range listed {
		all = append(all, imagegc.Image{ID: i.ID, RepoTags: i.RepoTags, RepoDigests: i.RepoDigests, Size: i.Size, Pinned: i.Pinned})
	}
	return all, err
}

// RemoveImage implements imagegc.ImageService.
func (c criImages) RemoveImage(ctx context.Context, image imagegc.Image) error {
	return c.Images.RemoveImage(ctx, image.ID)
}

// protected returns patterns of images that are needed but not used by any container: images of
// sandboxes, which some runtimes do not pin.
func (f *flags) protected() []string {
	all := []string{"*/pause"}
	if f.pause != "" {
		all = append(all, f.pause)
	}
	return all
}
