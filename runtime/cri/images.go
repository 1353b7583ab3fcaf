// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"slices"

	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// Images manages the node's images. References are passed unchanged; the runtime expands references
// by its own rules.
type Images interface {
	runtime.Images
	// ListImages returns every image on the node.
	ListImages(ctx context.Context) ([]Image, error)
	// RemoveImage removes an image by ID or reference, with all its references. A missing image is
	// no error.
	RemoveImage(ctx context.Context, ref string) error
	// ImagesInUse returns the image of every container, including containers not made by an agent,
	// under all names known to the runtime, and the images mounted by containers. "" stands for a
	// container whose image the runtime does not report.
	ImagesInUse(ctx context.Context) ([]string, error)
	// ImageFsInfo returns the use of the file systems holding images.
	ImageFsInfo(ctx context.Context) ([]FsUsage, error)
}

// Image is an image on the node.
type Image struct {
	ID          string
	RepoTags    []string
	RepoDigests []string
	Size        uint64 // bytes
	Pinned      bool   // the runtime keeps the image
}

// FsUsage is the space taken by images on one file system.
type FsUsage struct {
	Mountpoint string
	UsedBytes  uint64
	InodesUsed uint64
}

func (r *client) imageStatus(ctx context.Context, ref string) (*api.Image, error) {
	answer, err := do(ctx, callTimeout, "ImageStatus", r.images.ImageStatus, &api.ImageStatusRequest{Image: &api.ImageSpec{Image: ref}})
	if errors.Is(err, runtime.ErrNotFound) {
		return nil, nil
	}
	if err == nil && answer.GetImage() != nil && answer.GetImage().GetId() == "" {
		return nil, &CallError{Call: "ImageStatus", Message: "the runtime answered with an image without an ID"}
	}
	r.learnImage(answer.GetImage())
	return answer.GetImage(), err
}

// imageMemory is how many images are remembered.
const imageMemory = 256

// learnImage caches an image by ID. An image's content never changes; only its presence does.
func (r *client) learnImage(image *api.Image) {
	if image.GetId() == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.mu.imagesByID) >= imageMemory {
		clear(r.mu.imagesByID)
	}
	r.mu.imagesByID[image.GetId()] = image
}

// imageFor returns the cached image of spec.ImageID, else the image currently under spec.Image.
func (r *client) imageFor(ctx context.Context, spec *runtime.ContainerSpec) (*api.Image, error) {
	r.mu.Lock()
	known := r.mu.imagesByID[spec.ImageID]
	r.mu.Unlock()
	if known != nil {
		return known, nil
	}
	return r.imageStatus(ctx, spec.Image)
}

// ImageID implements runtime.Images.
func (r *client) ImageID(ctx context.Context, ref string) (string, error) {
	image, err := r.imageStatus(ctx, ref)
	return image.GetId(), err
}

// PullImage implements runtime.Images. A pull is repeated if RemoveImage removed the image under
// another name during the pull. The error's message is the runtime's, without the credentials of
// auth and of addresses.
func (r *client) PullImage(ctx context.Context, ref string, auth *runtime.ImageAuth) (string, error) {
	request := &api.PullImageRequest{Image: &api.ImageSpec{Image: ref}}
	if auth != nil {
		request.Auth = &api.AuthConfig{
			Username: auth.Username, Password: auth.Password, Auth: auth.Auth, ServerAddress: auth.ServerAddress,
			IdentityToken: auth.IdentityToken, RegistryToken: auth.RegistryToken,
		}
	}
	id, err := r.pull(ctx, request)
	return id, pullError(err)
}

// ListImages implements Images.
func (r *client) ListImages(ctx context.Context) ([]Image, error) {
	answer, err := do(ctx, callTimeout, "ListImages", r.images.ListImages, &api.ListImagesRequest{})
	if err != nil {
		return nil, err
	}
	var out []Image
	for _, i := range answer.GetImages() {
		out = append(out, Image{
			ID: i.GetId(), RepoTags: slices.Clone(i.GetRepoTags()), RepoDigests: slices.Clone(i.GetRepoDigests()),
			Size: i.GetSize(), Pinned: i.GetPinned(),
		})
	}
	return out, nil
}

// RemoveImage implements Images.
func (r *client) RemoveImage(ctx context.Context, ref string) error {
	defer r.removals.begin()()
	_, err := do(ctx, callTimeout, "RemoveImage", r.images.RemoveImage, &api.RemoveImageRequest{Image: &api.ImageSpec{Image: ref}})
	return gone(err)
}

// ImageFsInfo implements Images.
func (r *client) ImageFsInfo(ctx context.Context) ([]FsUsage, error) {
	answer, err := do(ctx, callTimeout, "ImageFsInfo", r.images.ImageFsInfo, &api.ImageFsInfoRequest{})
	if err != nil {
		return nil, err
	}
	var out []FsUsage
	for _, u := range answer.GetImageFilesystems() {
		out = append(out, FsUsage{u.GetFsId().GetMountpoint(), u.GetUsedBytes().GetValue(), u.GetInodesUsed().GetValue()})
	}
	return out, nil
}

// ImagesInUse implements Images.
func (r *client) ImagesInUse(ctx context.Context) ([]string, error) {
	containers, err := r.listContainers(ctx, nil)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range containers {
		before := len(names)
		for _, name := range []string{c.GetImageId(), c.GetImageRef(), c.GetImage().GetImage(), c.GetImage().GetUserSpecifiedImage()} {
			if name != "" {
				names = append(names, name)
			}
		}
		if len(names) == before {
			names = append(names, "")
		}
	}
	mounted, err := r.mountedImages(ctx, containers)
	if err != nil {
		return nil, err
	}
	return append(names, mounted...), nil
}
