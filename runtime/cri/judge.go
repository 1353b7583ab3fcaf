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

// A list says of a container that it has exited, not whether it ever ran. What a
// list is for does not depend on it, so nobody waits long for the answer: one
// container that cannot be looked at must not hide all others.
const (
	judgePatience = 500 * time.Millisecond // in one List
	judgePause    = 30 * time.Second       // before one that gave no answer is asked about again
)

// judge finds out which of the exited containers never ran, and asks about each
// only once if there is an answer. One that is gone meanwhile is left out.
func (r *Runtime) judge(ctx context.Context, containers []*api.Container) []*api.Container {
	ask := r.undecided(containers)
	if len(ask) == 0 {
		return containers
	}
	limited, cancel := context.WithTimeout(ctx, judgePatience)
	defer cancel()
	var mu sync.Mutex
	left := make(map[string]bool)
	_ = forEach(limited, r.opts.ParallelInspections, ask, func(ctx context.Context, c *api.Container) error {
		if ctx.Err() != nil {
			return ctx.Err() // not asked: the next List does
		}
		st, err := r.containerStatus(ctx, c.GetId())
		if errors.Is(err, runtime.ErrNotFound) {
			mu.Lock()
			defer mu.Unlock()
			left[c.GetId()] = true
			return nil
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			r.mu.askAgain[c.GetId()] = time.Now().Add(judgePause)
			return nil
		}
		delete(r.mu.askAgain, c.GetId())
		r.mu.neverRan[c.GetId()] = neverRan(st)
		return nil
	})
	return deleteFunc(containers, func(c *api.Container) bool { return left[c.GetId()] })
}

// undecided returns the exited containers of agents that are to be asked about.
func (r *Runtime) undecided(containers []*api.Container) []*api.Container {
	now := time.Now()
	var ask []*api.Container
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range containers {
		if c.GetState() != api.ContainerState_CONTAINER_EXITED || podUID(c.GetLabels()) == "" {
			continue
		}
		if _, known := r.mu.neverRan[c.GetId()]; !known && !r.mu.askAgain[c.GetId()].After(now) {
			ask = append(ask, c)
		}
	}
	return ask
}
