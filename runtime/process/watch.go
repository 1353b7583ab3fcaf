// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"iter"
	"os"
	"strings"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
)

// ErrWatching is yielded by a second Watch at the same time.
var ErrWatching = errors.New("process: Watch is under way already")

// Watch yields the UID of every pod, and then the pod's UID after each exit of a container and the end of a network. Watch
// waits for the end of the shims (pidfds in one epoll), so the exit is recorded before Watch
// yields. Watch starts no goroutine.
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
		// A killed agent may have left abandoned folders, shims and processes.
		if err := runtime.CollectLeftovers(ctx, r); err != nil && ctx.Err() == nil {
			r.log.Warn("Cannot collect all leftovers", zap.Error(err))
		}
		// List adds the running containers to the set.
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

// tell yields the pods of the containers and sandboxes, each pod once.
func tell(ids []string, yield func(types.UID, error) bool) bool {
	told := map[types.UID]bool{}
	for _, id := range ids {
		before, _, _ := strings.Cut(id, ":")
		uid := types.UID(before)
		if told[uid] {
			continue
		}
		told[uid] = true
		if !yield(uid, nil) {
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

// WatchesAll implements runtime.CompleteWatcher: without a call, a pod changes only with the end of a
// shim.
func (r *Runtime) WatchesAll() bool { return true }

// watch adds a running container to the running Watch, if any. After a failure the Watch ends with an
// error, and the next Watch begins with all pods.
func (r *Runtime) watch(in *instance, hint proc.Ref) {
	r.watchProcess(in.key.id().ID, hint, in.isShim)
}

// watchProcess adds a process to the running Watch, with the ID of its container or sandbox.
func (r *Runtime) watchProcess(id string, hint proc.Ref, match proc.Match) {
	r.mu.Lock()
	set := r.mu.watch
	r.mu.Unlock()
	if set == nil || set.Has(id) {
		return
	}
	h, err := proc.HoldAt(hint, match)
	switch {
	case errors.Is(err, os.ErrProcessDone):
		err = set.AddGone(id)
	case err == nil:
		err = set.Add(h, id)
		h.Close()
	}
	if err != nil {
		r.report(id, err)
		set.Close()
	}
}
