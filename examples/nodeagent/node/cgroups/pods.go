// SPDX-License-Identifier: Apache-2.0

package cgroups

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/runtime"
)

// prepare makes the cgroup of a pod, or lets its limits grow for a resize.
func (g *Groups) prepare(ctx context.Context, pod *v1.Pod, status *runtime.PodStatus) error {
	own, err := g.take(ctx, pod)
	if err != nil {
		return err
	}
	want := ForPod(pod, g.opts.Settings)
	next := want
	switch {
	case own.have == nil || status.Current() == nil: // another program may have removed the cgroup of a pod without a sandbox
		have, exists, err := g.opts.Writer.Limits(own.path)
		if err != nil {
			return fmt.Errorf("read cgroup %s: %w", own.path, err)
		}
		if exists && status.Current() != nil {
			next = widest(have, want)
		}
		if err := g.record(pod.UID, own.path); err != nil {
			return err
		}
	default:
		if next = widest(*own.have, want); reflect.DeepEqual(next, *own.have) {
			return nil
		}
	}
	if err := g.ensure(own.path, next); err != nil {
		return err
	}
	g.keep(pod, next)
	return nil
}

// take returns a copy of the group of a pod, after the end of a removal.
func (g *Groups) take(ctx context.Context, pod *v1.Pod) (own group, err error) {
	path, err := Path(g.opts.Driver, podParts(g.root, pod)...)
	if err != nil {
		return own, fmt.Errorf("cgroup of the pod: %w", err)
	}
	for {
		g.mu.Lock()
		known := g.pods.Get(pod.UID)
		if known == nil {
			known = &group{}
			g.pods.Set(pod.UID, known)
		}
		removal := known.removal
		if removal == nil {
			known.path, known.class, known.gone = path, podresources.QOS(pod), false
			own = *known
			g.mu.Unlock()
			return own, nil
		}
		g.mu.Unlock()
		select {
		case <-removal:
		case <-ctx.Done():
			return own, context.Cause(ctx)
		}
	}
}

// keep notes the values of a pod's cgroup.
func (g *Groups) keep(pod *v1.Pod, v Values) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if own := g.pods.Get(pod.UID); own != nil {
		own.have = &v
		if asked := requestsOf(pod); asked != own.asked {
			own.asked = asked
			g.wake.Notify()
		}
	}
}

// shrink writes the values of a pod after its containers have received their resources.
func (g *Groups) shrink(pod *v1.Pod, result *runtime.Result) {
	if result.Err() != nil {
		return
	}
	g.mu.Lock()
	own := group{}
	if known := g.pods.Get(pod.UID); known != nil {
		own = *known
	}
	g.mu.Unlock()
	want := ForPod(pod, g.opts.Settings)
	if own.have == nil || reflect.DeepEqual(*own.have, want) {
		return
	}
	if err := g.ensure(own.path, want); err != nil {
		g.opts.Logger.Warn("the limits of a pod cannot be lowered yet; the next sync tries again", feature.PodField(pod), zap.Error(err))
		return
	}
	g.keep(pod, want)
}

// release removes the cgroup of a pod without running containers.
func (g *Groups) release(ctx context.Context, pod *v1.Pod) error {
	g.mu.Lock()
	own := g.pods.Get(pod.UID)
	g.mu.Unlock()
	if own == nil || own.path == "" {
		return nil
	}
	defer g.operated("destroy", time.Now())
	if err := cmp.Or(g.opts.Writer.Kill(ctx, own.path), g.opts.Writer.Remove(ctx, own.path)); err != nil {
		return fmt.Errorf("remove cgroup %s: %w", own.path, err)
	}
	return g.forget(pod.UID)
}

// forget deletes the record of a pod after the removal of the cgroup.
func (g *Groups) forget(uid types.UID) error {
	if err := os.Remove(g.file(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("record of a cgroup: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pods.Drop(uid)
	g.wake.Notify()
	return nil
}

// file returns the path of a record.
func (g *Groups) file(uid types.UID) string { return filepath.Join(g.opts.Records, string(uid)) }

// record writes the record of a cgroup that is about to be made.
func (g *Groups) record(uid types.UID, path string) error {
	if err := os.WriteFile(g.file(uid), []byte(path), 0o600); err != nil {
		return fmt.Errorf("record of a cgroup: %w", err)
	}
	return nil
}

// load reads the records of an earlier agent.
func (g *Groups) load() error {
	if err := os.MkdirAll(g.opts.Records, 0o700); err != nil {
		return err
	}
	files, err := os.ReadDir(g.opts.Records)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range files {
		path, err := os.ReadFile(filepath.Join(g.opts.Records, f.Name()))
		if err != nil {
			return err
		}
		g.pods.Set(types.UID(f.Name()), &group{path: string(path)})
	}
	return nil
}
