// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"sync"
	"time"

	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// An image has many names. The pulled image may be under removal by another name, which the caller
// cannot know before the pull. Then containerd's pull cannot find the names given to the image by
// the same pull, and fails although nothing is wrong.

// maxPulls bounds the attempts of a pull disturbed by removals.
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

// watch returns a func reporting whether a removal was under way since the call of watch.
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

// pull pulls an image, and repeats the pull if a removal took the image away meanwhile.
func (r *client) pull(ctx context.Context, request *api.PullImageRequest) (ref string, err error) {
	r.pullBegan.Store(time.Now().Unix())
	r.pulls.Add(1)
	defer r.pulls.Add(-1)
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
