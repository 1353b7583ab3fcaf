// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// RunSandbox makes a sandbox, which is a folder with a record. A sandbox has no process, except
// those of its network with Options.Pasta. The sandbox is ready until StopSandbox, until its network ends, or
// until the machine restarts.
func (r *Runtime) RunSandbox(ctx context.Context, spec runtime.SandboxSpec) (runtime.SandboxID, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := checkName(string(spec.UID)); err != nil {
		return "", fmt.Errorf("pod UID: %w", err)
	}
	if spec.LogDirectory != "" && !filepath.IsAbs(spec.LogDirectory) {
		return "", fmt.Errorf("log directory: %q is not absolute", spec.LogDirectory)
	}
	if err := r.admit(spec); err != nil {
		return "", err
	}
	boot, err := proc.BootID()
	if err != nil {
		return "", fmt.Errorf("boot ID: %w", err)
	}
	if spec.LogDirectory != "" {
		if err := os.MkdirAll(spec.LogDirectory, 0o755); err != nil {
			return "", fmt.Errorf("log directory: %w", err)
		}
	}
	key := sandboxKey{uid: spec.UID, attempt: spec.Attempt, salt: newSalt()}
	rec := record.Sandbox{
		UID: string(spec.UID), Namespace: spec.Namespace, Name: spec.Name,
		Hostname: spec.Hostname, HostNetwork: spec.HostNetwork, Network: r.hasNetwork(spec.Pod), IDs: r.ids, BootID: boot,
		CreatedAt: after(time.Now(), r.newest(spec.UID)),
	}
	if err := r.placeSandbox(key, rec); err != nil {
		return "", fmt.Errorf("sandbox of pod %s: %w", spec.UID, err)
	}
	if rec.Network {
		if err := r.openNetwork(ctx, key, spec.Pod); err != nil {
			return "", errors.Join(fmt.Errorf("sandbox of pod %s: %w", spec.UID, err), r.RemoveSandbox(context.WithoutCancel(ctx), key.id()))
		}
	}
	return key.id(), nil
}

// admit refuses a pod that cannot be honoured. A lenient backend logs the ignored fields.
func (r *Runtime) admit(spec runtime.SandboxSpec) error {
	if spec.Pod == nil {
		return nil
	}
	if r.lenient {
		if fields := r.newCheck().pod(spec.Pod); len(fields) > 0 {
			r.log.Warn("Fields are ignored", zap.String("pod", spec.Namespace+"/"+spec.Name),
				zap.String("podUID", string(spec.UID)), zap.Strings("fields", fields))
		}
	}
	return r.CheckPod(spec.Pod)
}

func (r *Runtime) placeSandbox(key sandboxKey, rec record.Sandbox) error {
	r.pods.Lock()
	defer r.pods.Unlock()
	root, err := r.makeRoot()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(string(key.uid), 0o700); err != nil {
		return err
	}
	pod, err := root.OpenRoot(string(key.uid))
	if err != nil {
		return err
	}
	defer pod.Close()
	return place(pod, filepath.Base(key.dir()), func(dir *os.Root) error {
		return record.Create(dir, record.SandboxFile, rec)
	})
}

// newest returns the creation time of the pod's newest sandbox or container.
func (r *Runtime) newest(uid types.UID) time.Time {
	var newest time.Time
	keys, _ := r.sandboxes(uid) // an unreadable sandbox has no time
	for _, key := range keys {
		if s, err := r.openSandbox(key.id()); err == nil {
			if t := s.newest(); t.After(newest) {
				newest = t
			}
			s.close()
		}
	}
	return newest
}

// newest returns the creation time of the newest container of the sandbox, or of the sandbox. A sandbox is
// newer than all containers of earlier sandboxes.
func (s *sandbox) newest() time.Time {
	newest := s.rec.CreatedAt
	keys, _ := s.containers() // an unreadable container has no time
	for _, key := range keys {
		spec, err := record.Read[record.Spec](s.dir, filepath.Join(key.base(), record.SpecFile))
		if err == nil && spec.CreatedAt.After(newest) {
			newest = spec.CreatedAt
		}
	}
	return newest
}

// after returns now, or 1 ns after last if the clock was set back in between. "Newest first" must
// be the order of creation.
func after(now, last time.Time) time.Time {
	if now.After(last) {
		return now
	}
	return last.Add(time.Nanosecond)
}

// StopSandbox kills the containers of the sandbox, ends its network, and makes the sandbox not ready. Containers that
// were never started stay created, and later starts fail.
func (r *Runtime) StopSandbox(ctx context.Context, id runtime.SandboxID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := r.openSandbox(id)
	if err != nil {
		return fmt.Errorf("sandbox %s: %w", id, err)
	}
	defer s.close()
	if err := r.stopSandbox(ctx, s); err != nil {
		return fmt.Errorf("stop sandbox %s: %w", id, err)
	}
	return nil
}

func (r *Runtime) stopSandbox(ctx context.Context, s *sandbox) error {
	stopped, err := s.stopped()
	if err != nil {
		return err
	}
	if !stopped {
		// The mark comes before the containers. A start that missed the mark holds the
		// lock of the container by now, and the loop below stops that container.
		if err := record.Write(s.dir, record.StoppedFile, record.Stopped{StoppedAt: time.Now()}); err != nil {
			return err
		}
	}
	keys, err := s.containers()
	if err != nil {
		return err
	}
	errs := make([]error, len(keys))
	var wg sync.WaitGroup
	for i, key := range keys {
		wg.Go(func() {
			in, err := s.open(r, key)
			if err == nil {
				defer in.close()
				_, err = r.halt(ctx, in, 0)
			}
			if err != nil && !errors.Is(err, runtime.ErrNotFound) {
				errs[i] = fmt.Errorf("container %s: %w", key.name, err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return errors.Join(s.endNetwork(ctx), r.reclaimSandbox(ctx, s))
}

// RemoveSandbox stops the sandbox and removes it with its containers.
func (r *Runtime) RemoveSandbox(ctx context.Context, id runtime.SandboxID) error {
	if err := r.StopSandbox(ctx, id); err != nil {
		return err
	}
	key, _ := parseSandboxID(id)
	if err := r.discardSandbox(ctx, key); err != nil {
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	return nil
}

func (r *Runtime) discardSandbox(ctx context.Context, key sandboxKey) error {
	if err := r.removeGroups(ctx, key); err != nil {
		return err
	}
	root, err := r.openRoot()
	if err != nil {
		return notFound(err)
	}
	defer root.Close()
	pod, err := root.OpenRoot(string(key.uid))
	if err != nil {
		return notFound(err)
	}
	defer pod.Close()
	if err := discard(pod, filepath.Base(key.dir())); err != nil {
		return notFound(err)
	}
	r.pods.Lock()
	defer r.pods.Unlock()
	names, err := foldersIn(pod, ".")
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, ".") {
			return nil // the pod has another sandbox
		}
	}
	// Abandoned folders are removed with the last sandbox.
	return tree.RemoveAll(root, string(key.uid))
}
