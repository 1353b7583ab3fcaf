// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"sync"

	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// An image has many names, and the one that is pulled may turn out to be one that
// is just being removed under another name, which nobody can know before. Then
// containerd's pull cannot find the names that it has given the image itself, and
// fails although nothing is wrong.

// maxPulls is how often a pull is tried that removals get in the way of.
const maxPulls = 4

// removals tell whether an image was being removed at a time. The zero value is
// ready.
type removals struct {
	mu struct {
		sync.Mutex
		begun    uint64
		underWay int
	}
}

// begin notes a removal, until end.
func (r *removals) begin() (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.begun++
	r.mu.underWay++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.mu.underWay--
	}
}

// watch returns a func that reports whether a removal was under way since.
func (r *removals) watch() (seen func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	begun, underWay := r.mu.begun, r.mu.underWay > 0
	return func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return underWay || r.mu.begun > begun
	}
}

// pull asks for an image, and again if it got lost on the way.
func (r *Runtime) pull(ctx context.Context, request *api.PullImageRequest) (ref string, err error) {
	for range maxPulls {
		removed := r.removals.watch()
		var answer *api.PullImageResponse
		answer, err = do(ctx, noTimeout, "PullImage", r.images.PullImage, request)
		if !errors.Is(err, runtime.ErrNotFound) || !removed() || ctx.Err() != nil {
			return answer.GetImageRef(), err
		}
	}
	return "", err
}
