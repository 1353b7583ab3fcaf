// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process/internal/proc"
)

// ErrWatching is what a second Watch at the same time yields.
var ErrWatching = errors.New("process: Watch is under way already")

// Watch yields the UID of every pod, and then that of a pod when one of its
// containers has exited. It waits for the end of the shims (pidfds in one
// epoll), so the exit is on record by then. It uses the caller's goroutine and no
// other.
func (r *Runtime) Watch(ctx context.Context) iter.Seq2[types.UID, error] {
	return func(yield func(types.UID, error) bool) {
		set, err := proc.NewSet()
		if err != nil {
			yield("", err)
			return
		}
		defer set.Close()
		if !r.enter(set) {
			yield("", ErrWatching)
			return
		}
		defer r.leave()
		// Looking at the containers that run already adds them to the set.
		pods, err := r.List(ctx, runtime.ListOptions{})
		for i := 0; err == nil && i < len(pods); i++ {
			if ctx.Err() != nil || !yield(pods[i].UID, nil) {
				return
			}
		}
		if err != nil {
			if ctx.Err() == nil {
				yield("", err)
			}
			return
		}
		for {
			ids, err := set.Wait(ctx)
			if err != nil {
				if ctx.Err() == nil {
					yield("", err)
				}
				return
			}
			if !tell(ids, yield) {
				return
			}
		}
	}
}

// tell yields each pod of the containers once.
func tell(ids []string, yield func(types.UID, error) bool) bool {
	told := map[types.UID]bool{}
	for _, id := range ids {
		key, ok := parseContainerID(runtime.ContainerID{Runtime: Name, ID: id})
		if !ok || told[key.sandbox.uid] {
			continue
		}
		told[key.sandbox.uid] = true
		if !yield(key.sandbox.uid, nil) {
			return false
		}
	}
	return true
}

func (r *Runtime) enter(set *proc.Set) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.watch != nil {
		return false
	}
	r.mu.watch = set
	return true
}

func (r *Runtime) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.watch = nil
}

// watch adds a running container to the Watch under way, if there is one. A
// failure costs a hint, and hints are never the only source.
func (r *Runtime) watch(key containerKey, shim proc.Ref) {
	r.mu.Lock()
	set := r.mu.watch
	r.mu.Unlock()
	if set == nil {
		return
	}
	if err := set.Add(shim, key.id().ID); err != nil {
		r.report(key.id().ID, err)
	}
}
