// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"

	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// A list of containers does not say what they have mounted, so that each has to be
// asked about. What it was made with never changes: once is enough.

// learnMounts remembers which images a container has mounted.
func (r *Runtime) learnMounts(st *api.ContainerStatus) []string {
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

// mountedImages names the images that containers have mounted. Nobody but the
// runtime knows of the containers of others, and of those of an agent before this
// one whose manifests are gone. One that is gone meanwhile is left out.
func (r *Runtime) mountedImages(ctx context.Context, containers []*api.Container) ([]string, error) {
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
	err := forEach(ctx, r.opts.ParallelInspections, ask, func(ctx context.Context, c *api.Container) error {
		st, err := r.containerStatus(ctx, c.GetId())
		switch {
		case errors.Is(err, runtime.ErrNotFound):
			return nil
		case err != nil:
			return fmt.Errorf("what container %s has mounted: %w", c.GetId(), err)
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
