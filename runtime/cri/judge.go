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

// A list reports a container as exited, not whether the container ever ran. The purpose of a list
// does not depend on the answer, so the wait is short: a container without an answer must not hide
// all other containers.
const (
	judgePatience = 500 * time.Millisecond // per List
	judgePause    = 30 * time.Second       // before the next question about a container without an answer
)

// judge finds out which exited containers never ran. Each container with an answer is asked about
// only once. Containers removed meanwhile are left out.
func (r *client) judge(ctx context.Context, containers []*api.Container) []*api.Container {
	ask := r.undecided(containers)
	if len(ask) == 0 {
		return containers
	}
	limited, cancel := context.WithTimeout(ctx, judgePatience)
	defer cancel()
	var mu sync.Mutex
	left := make(map[string]bool)
	_ = forEach(limited, ask, func(ctx context.Context, c *api.Container) error {
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

// undecided returns the agents' exited containers still to be asked about.
func (r *client) undecided(containers []*api.Container) []*api.Container {
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
