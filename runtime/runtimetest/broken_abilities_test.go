// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"context"
	"errors"
	"net/url"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// The optional abilities of a broken backend. Its images are invented, because the fake has none.

func (b *broken) UpdateResources(ctx context.Context, id runtime.ContainerID, want v1.ResourceRequirements) error {
	if b.update != nil {
		return b.update(b, ctx, id, want)
	}
	return b.Runtime.UpdateResources(ctx, id, want)
}

func (b *broken) MemoryUsage(ctx context.Context, id runtime.ContainerID) (int64, error) {
	if b.usage != nil {
		return b.usage(b, ctx, id)
	}
	return b.Runtime.MemoryUsage(ctx, id)
}

func (b *broken) ContainerStats(ctx context.Context, id runtime.ContainerID) (*stats.Container, error) {
	if b.stats != nil {
		return b.stats(b, ctx, id)
	}
	return b.Runtime.ContainerStats(ctx, id)
}

func (b *broken) ListStats(ctx context.Context) ([]stats.Pod, error) {
	if b.all != nil {
		return b.all(b, ctx)
	}
	return b.Runtime.ListStats(ctx)
}

func (b *broken) streamed(u *url.URL, err error) (*url.URL, error) {
	if b.stream != nil {
		return b.stream(b, u, err)
	}
	return u, err
}

func (b *broken) ExecURL(ctx context.Context, id runtime.ContainerID, cmd []string, s runtime.Streams) (*url.URL, error) {
	return b.streamed(b.Runtime.ExecURL(ctx, id, cmd, s))
}

func (b *broken) AttachURL(ctx context.Context, id runtime.ContainerID, s runtime.Streams) (*url.URL, error) {
	return b.streamed(b.Runtime.AttachURL(ctx, id, s))
}

func (b *broken) PortForwardURL(ctx context.Context, id runtime.SandboxID, ports []int32) (*url.URL, error) {
	return b.streamed(b.Runtime.PortForwardURL(ctx, id, ports))
}

// ImageID reports all images except the absent image as present, like pulled images.
func (b *broken) ImageID(_ context.Context, image string) (string, error) {
	if b.imageID != nil {
		return b.imageID(b, image)
	}
	if image == "localhost/nowhere:1" {
		return "", nil
	}
	return "sha256:" + image, nil
}

func (b *broken) PullImage(ctx context.Context, image string, auth *runtime.ImageAuth) (string, error) {
	if b.pull != nil {
		return b.pull(b, ctx, image, auth)
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	switch {
	case image == "localhost/nowhere:1":
		return "", errors.New("there is no such image")
	case image == "localhost/there:1" && auth == nil:
		return "", errors.New("who asks?")
	}
	return "sha256:" + image, nil
}
