// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

// Running returns a function for Request.Running, which reports whether a container instance may
// still write. An instance may write until its exit. An instance without a record may not write.
func Running(rt runtime.Runtime, uid types.UID, id runtime.ContainerID) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		status, err := rt.PodStatus(ctx, uid)
		if err != nil {
			return false, err
		}
		for i := range status.Containers {
			if c := &status.Containers[i]; c.ID == id {
				return c.State != runtime.StateExited, nil
			}
		}
		return false, nil
	}
}

// ChangeCounter is an optional ability of a runtime.Runtime that is told about starts and exits.
type ChangeCounter interface {
	// Changes returns the number of starts and exits of containers so far. known is false while
	// changes may be missed. A change is counted within seconds.
	Changes() (n uint64, known bool)
}

// lasts is the time after which a list is made without a known change, too.
const lasts = time.Minute

// RunningLogs returns a function for RotatorOptions.Logs, which lists the logs of all containers
// that run or may run. Known paths are cached, so that a call costs a single List while no
// container is started. For a ChangeCounter, a call without a change within a minute costs nothing.
func RunningLogs(rt runtime.Runtime) func(context.Context) ([]Log, error) {
	l := &lister{rt: rt, known: map[runtime.ContainerID]string{}}
	l.counter, _ = rt.(ChangeCounter)
	return l.list
}

type lister struct {
	rt      runtime.Runtime
	counter ChangeCounter // may be nil
	mu      sync.Mutex
	known   map[runtime.ContainerID]string // paths of those listed last; never written, only replaced
	last    listing
}

// listing is a list without an error.
type listing struct {
	logs    []Log // never written
	until   time.Time
	changes uint64
}

func (l *lister) list(ctx context.Context) ([]Log, error) {
	var changes uint64
	counted := false
	if l.counter != nil {
		changes, counted = l.counter.Changes()
	}
	l.mu.Lock()
	last := l.last
	l.mu.Unlock()
	if counted && changes == last.changes && time.Now().Before(last.until) {
		return last.logs, nil
	}
	out, err := l.listAnew(ctx)
	if err == nil && counted {
		l.mu.Lock()
		l.last = listing{out, time.Now().Add(lasts), changes}
		l.mu.Unlock()
	}
	return out, err
}

func (l *lister) listAnew(ctx context.Context) ([]Log, error) {
	pods, err := l.rt.List(ctx, runtime.ListOptions{RunningOnly: true})
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	known := l.known
	l.mu.Unlock()
	var out []Log
	var errs []error
	seen := map[runtime.ContainerID]string{}
	for _, pod := range pods {
		paths, err := l.paths(ctx, pod, known)
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s: %w", pod.UID, err))
		}
		for _, c := range pod.Running() {
			path, ok := paths[c.ID]
			if ok {
				seen[c.ID] = path
			}
			if path != "" {
				out = append(out, Log{ID: c.ID, Path: path})
			}
		}
	}
	l.mu.Lock()
	l.known = seen
	l.mu.Unlock()
	return out, errors.Join(errs...)
}

// paths returns the log paths of a pod's containers, from the cache, the
// listing, or the pod's full status.
func (l *lister) paths(ctx context.Context, pod *runtime.PodStatus, known map[runtime.ContainerID]string) (map[runtime.ContainerID]string, error) {
	paths := map[runtime.ContainerID]string{}
	missing := false
	for _, c := range pod.Running() {
		path, ok := known[c.ID]
		if !ok && c.LogPath != "" {
			path, ok = c.LogPath, true
		}
		if ok {
			paths[c.ID] = path
		}
		missing = missing || !ok
	}
	if !missing {
		return paths, nil
	}
	full, err := l.rt.PodStatus(ctx, pod.UID)
	if err != nil {
		return paths, err
	}
	for i := range full.Containers {
		paths[full.Containers[i].ID] = full.Containers[i].LogPath
	}
	return paths, nil
}
