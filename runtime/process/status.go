// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/sorted"
	"github.com/keelson-dev/keelson/runtime"
)

// PodStatus reports one pod from the records on disk and the running processes.
func (r *Runtime) PodStatus(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	st := &runtime.PodStatus{UID: uid, ObservedAt: time.Now()}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	keys, err := r.sandboxes(uid)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if err := r.addSandbox(ctx, st, key); err != nil {
			return nil, err
		}
	}
	orderBroken(st)
	sorted.By(st.Sandboxes, func(a, b runtime.SandboxStatus) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	sorted.By(st.Containers, func(a, b runtime.ContainerStatus) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID.ID, a.ID.ID))
	})
	return st, nil
}

// addSandbox adds a sandbox and the sandbox's containers to a pod's status, without those that
// another call is removing.
func (r *Runtime) addSandbox(ctx context.Context, st *runtime.PodStatus, key sandboxKey) error {
	s, err := r.openSandbox(key.id())
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer s.close()
	sandbox := runtime.SandboxStatus{
		ID: key.id(), Attempt: key.attempt, Ready: s.usable() == nil, HostNetwork: s.rec.HostNetwork,
		NetworkKnown: len(r.hostIPs) > 0, IPs: slices.Clone(r.hostIPs), CreatedAt: s.rec.CreatedAt,
	}
	if s.intact {
		st.Namespace, st.Name = s.rec.Namespace, s.rec.Name
	}
	if sandbox.Ready && s.rec.Network {
		r.watchNetwork(s)
	}
	st.Sandboxes = append(st.Sandboxes, sandbox)
	keys, err := s.containers()
	if err != nil {
		return err
	}
	for _, key := range keys {
		c, err := r.containerStatus(ctx, s, key)
		if errors.Is(err, runtime.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		st.Containers = append(st.Containers, c)
	}
	return nil
}

func (r *Runtime) containerStatus(ctx context.Context, s *sandbox, key containerKey) (runtime.ContainerStatus, error) {
	in, err := s.open(r, key)
	if err != nil {
		return runtime.ContainerStatus{}, err
	}
	defer in.close()
	o, err := r.observe(ctx, in)
	if err != nil {
		return runtime.ContainerStatus{}, err
	}
	c := runtime.ContainerStatus{
		ID: key.id(), Name: key.name, Sandbox: s.key.id(), RestartCount: key.restart,
		Hash: o.spec.Hash, Image: o.spec.Image, ImageID: o.spec.ImageID, LogPath: o.spec.LogPath,
		CreatedAt: o.spec.CreatedAt, StartedAt: o.process.StartedAt, Annotations: o.spec.Annotations,
	}
	switch o.verdict {
	case verdictCreated:
		c.State = runtime.StateCreated
	case verdictRunning:
		c.State = runtime.StateRunning
		c.Resources = reported(o.spec.Cgroup)
		r.watch(in, o.process.Shim)
	case verdictExited:
		c.State = runtime.StateExited
		c.ExitCode, c.Reason, c.Message, c.FinishedAt = o.exit.Code, o.exit.Reason, o.exit.Message, o.exit.FinishedAt
	default:
		c.State = runtime.StateUnknown
	}
	return c, nil
}

// List reports every pod completely, ordered by UID.
func (r *Runtime) List(ctx context.Context, opts runtime.ListOptions) ([]*runtime.PodStatus, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	uids, err := r.uids()
	if err != nil {
		return nil, err
	}
	var out []*runtime.PodStatus
	for _, uid := range uids {
		st, err := r.PodStatus(ctx, uid)
		if err != nil {
			return nil, err
		}
		if opts.RunningOnly {
			st.Sandboxes = slices.DeleteFunc(st.Sandboxes, func(s runtime.SandboxStatus) bool { return !s.Ready })
			st.Containers = slices.DeleteFunc(st.Containers, func(c runtime.ContainerStatus) bool {
				return c.State != runtime.StateRunning && c.State != runtime.StateUnknown
			})
		}
		if len(st.Sandboxes)+len(st.Containers) > 0 {
			out = append(out, st)
		}
	}
	return out, nil
}

// uids returns the sorted UIDs of all pods. Without a state folder there are none.
func (r *Runtime) uids() ([]types.UID, error) {
	root, err := r.openRoot()
	if err == nil {
		defer root.Close()
		return podsIn(root)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return nil, err
}

// podsIn returns the sorted UIDs of the pods with a folder in root.
func podsIn(root *os.Root) ([]types.UID, error) {
	names, err := foldersIn(root, ".")
	var out []types.UID
	for _, name := range names {
		if checkName(name) == nil {
			out = append(out, types.UID(name))
		}
	}
	slices.Sort(out)
	return out, err
}
