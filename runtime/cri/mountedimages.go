// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"

	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// A list of containers does not include their mounts, so each container needs a ContainerStatus.
// Mounts never change after creation: one call per container is enough.

// learnMounts caches the images mounted by a container.
func (r *client) learnMounts(st *api.ContainerStatus) []string {
	if !r.info.ImageVolumes {
		return nil
	}
	var names []string
	for _, m := range st.GetMounts() {
		for _, name := range []string{m.GetImage().GetImage(), m.GetImage().GetUserSpecifiedImage()} {
			if name != "" {
				names = append(names, name)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.mounted[st.GetId()] = names
	return names
}

// mountedImages returns the images mounted by containers. Only the runtime knows the containers of
// other clients, and of an earlier agent whose manifests are gone. Containers removed meanwhile are
// left out.
func (r *client) mountedImages(ctx context.Context, containers []*api.Container) ([]string, error) {
	if !r.info.ImageVolumes {
		return nil, nil
	}
	var names []string
	var ask []*api.Container
	r.mu.Lock()
	for _, c := range containers {
		mounted, known := r.mu.mounted[c.GetId()]
		if !known {
			ask = append(ask, c)
		}
		names = append(names, mounted...)
	}
	r.mu.Unlock()
	found := make(chan []string, len(ask))
	err := forEach(ctx, ask, func(ctx context.Context, c *api.Container) error {
		st, err := r.containerStatus(ctx, c.GetId())
		switch {
		case errors.Is(err, runtime.ErrNotFound):
			return nil
		case err != nil:
			return fmt.Errorf("mounts of container %s: %w", c.GetId(), err)
		}
		found <- r.learnMounts(st)
		return nil
	})
	if err != nil {
		return nil, err
	}
	close(found)
	for mounted := range found {
		names = append(names, mounted...)
	}
	return names, nil
}
