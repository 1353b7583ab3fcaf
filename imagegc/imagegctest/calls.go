// SPDX-License-Identifier: Apache-2.0

package imagegctest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/keelson-dev/keelson/imagegc"
)

// ListImages implements imagegc.ImageService. The images are sorted by ID.
func (n *Node) ListImages(ctx context.Context) ([]imagegc.Image, error) {
	if err := n.hook(ctx, Call{Method: "ListImages"}); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []imagegc.Image
	for id, p := range n.mu.present {
		image := imagegc.Image{ID: id, RepoTags: slices.Clone(p.tags), Pinned: p.image.Pinned}
		for _, tag := range p.image.Tags {
			image.RepoDigests = append(image.RepoDigests, tag[:lastColon(tag)]+"@"+p.image.Digest())
		}
		for _, size := range p.image.Layers {
			image.Size += size
		}
		out = append(out, image)
	}
	slices.SortFunc(out, func(a, b imagegc.Image) int { return cmp.Compare(a.ID, b.ID) })
	if n.mu.lies.List != nil {
		out = n.mu.lies.List(out)
	}
	return out, nil
}

func lastColon(tag string) int {
	for i := len(tag) - 1; i >= 0; i-- {
		if tag[i] == ':' {
			return i
		}
	}
	return len(tag)
}

// RemoveImage implements imagegc.ImageService.
func (n *Node) RemoveImage(ctx context.Context, image imagegc.Image) error {
	if err := n.hook(ctx, Call{Method: "RemoveImage", Image: image.ID}); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.mu.present[image.ID]
	if p == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(n.mu.containers)) {
		if n.mu.containers[name] == image.ID {
			n.violation("image %s was removed while container %s used it", image.Name(), name)
		}
	}
	if p.image.Pinned {
		n.violation("image %s was removed although it is pinned", image.Name())
	}
	delete(n.mu.present, image.ID)
	return nil
}

// ImagesInUse implements imagegc.InUse. The result has the image ID and the image reference of each
// container.
func (n *Node) ImagesInUse(ctx context.Context) ([]string, error) {
	if err := n.hook(ctx, Call{Method: "ImagesInUse"}); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(n.mu.containers)) {
		out = append(out, n.mu.containers[name], n.mu.references[name])
	}
	if n.mu.lies.InUse != nil {
		out = n.mu.lies.InUse(out)
	}
	return out, nil
}

// ImageFS implements imagegc.DiskUsage.
func (n *Node) ImageFS(ctx context.Context) (capacity, available uint64, err error) {
	if err := n.hook(ctx, Call{Method: "ImageFS"}); err != nil {
		return 0, 0, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	used := n.used() + n.mu.filled
	capacity = n.mu.capacity
	available = capacity - min(used, capacity)
	if n.mu.lies.Disk != nil {
		capacity, available = n.mu.lies.Disk(capacity, available)
	}
	return capacity, available, nil
}

// Status returns the ID of a present image, or "". An agent calls Status before a pull.
func (n *Node) Status(ctx context.Context, reference string) (id string, err error) {
	if err := n.hook(ctx, Call{Method: "Status", Image: reference}); err != nil {
		return "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.find(reference); p != nil {
		return p.image.ID(), nil
	}
	return "", nil
}

// Pull adds an image from the registry by its tag, and returns its ID.
func (n *Node) Pull(ctx context.Context, tag string) (id string, err error) {
	if err := n.hook(ctx, Call{Method: "Pull", Image: tag}); err != nil {
		return "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	image, ok := n.mu.registry[tag]
	if !ok {
		return "", fmt.Errorf("pull %s: %w", tag, ErrNoImage)
	}
	n.tag(image, tag)
	return image.ID(), nil
}

// Create makes a container from a present image.
func (n *Node) Create(ctx context.Context, name, reference string) error {
	if err := n.hook(ctx, Call{Method: "Create", Image: reference}); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.find(reference)
	if p == nil {
		return fmt.Errorf("create container %s from %s: %w", name, reference, ErrNoImage)
	}
	n.mu.containers[name], n.mu.references[name] = p.image.ID(), reference
	return nil
}

// Run creates a container in the set-up of a test. It does not call Hook. An absent image is a
// violation.
func (n *Node) Run(name, reference string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.find(reference)
	if p == nil {
		n.violation("container %s: no image %s", name, reference)
		return
	}
	n.mu.containers[name], n.mu.references[name] = p.image.ID(), reference
}

// Stop removes a container.
func (n *Node) Stop(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.mu.containers, name)
	delete(n.mu.references, name)
}
