// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// CreateContainer makes a container's folder with the record, and with a working folder that has
// the mounts as links.
func (r *Runtime) CreateContainer(ctx context.Context, id runtime.SandboxID, spec runtime.ContainerSpec) (runtime.ContainerID, error) {
	if err := ctx.Err(); err != nil {
		return runtime.ContainerID{}, err
	}
	if spec.Pod != nil {
		if err := r.CheckPod(spec.Pod); err != nil {
			return runtime.ContainerID{}, err
		}
	}
	s, err := r.openSandbox(id)
	if err != nil {
		return runtime.ContainerID{}, fmt.Errorf("sandbox %s: %w", id, err)
	}
	defer s.close()
	key, err := r.create(ctx, s, spec)
	if err != nil {
		return runtime.ContainerID{}, fmt.Errorf("container %s in sandbox %s: %w", spec.Name, id, err)
	}
	return key.id(), nil
}

func (r *Runtime) create(ctx context.Context, s *sandbox, spec runtime.ContainerSpec) (containerKey, error) {
	if err := checkName(spec.Name); err != nil {
		return containerKey{}, fmt.Errorf("name: %w", err)
	}
	if spec.RestartCount < 0 {
		return containerKey{}, fmt.Errorf("restart count %d is negative", spec.RestartCount)
	}
	if err := s.usable(); err != nil {
		return containerKey{}, err
	}
	if err := r.checkGroups(spec.SupplementalGroups); err != nil {
		return containerKey{}, err
	}
	key := containerKey{sandbox: s.key, name: spec.Name, restart: spec.RestartCount, salt: newSalt()}
	hostname := s.rec.Hostname
	if hostname == "" {
		hostname, _ = os.Hostname() // empty on error
	}
	work := filepath.Join(r.root, key.dir(), record.WorkDir)
	at := surroundings{id: key.id().ID, work: work, hostname: hostname, path: os.Getenv("PATH"), isolated: r.confine && r.host.Namespaces}
	var err error
	if r.images != nil {
		// By the ID: the name may refer to another image by now.
		image, err := r.images.RootFS(ctx, cmp.Or(spec.ImageID, spec.Image))
		if err != nil {
			return containerKey{}, fmt.Errorf("image %s: %w", spec.Image, err)
		}
		at.image = &image
	}
	if spec.Mounts, err = r.mountImages(ctx, spec.Mounts); err != nil {
		return containerKey{}, err
	}
	rec, err := compose(spec, at)
	if err != nil {
		return containerKey{}, err
	}
	if rec.Walls, err = r.walls(spec, rec, at); err != nil {
		return containerKey{}, err
	}
	if err := s.join(&rec); err != nil {
		return containerKey{}, err
	}
	rec.Cgroup = r.limits(key, spec)
	rec.Sandbox = &s.rec
	rec.MaxLogSize, rec.MaxLogFiles = r.maxLogSize, r.maxLogFiles
	rec.CreatedAt = after(time.Now(), s.newest())
	if rec.LogPath != "" {
		if err := os.MkdirAll(filepath.Dir(rec.LogPath), 0o755); err != nil {
			return containerKey{}, fmt.Errorf("log directory: %w", err)
		}
	}
	if err := s.expectForeign(&rec); err != nil {
		return containerKey{}, err
	}
	return key, place(s.dir, key.base(), func(dir *os.Root) error { return furnish(dir, rec) })
}

// furnish fills a container's folder.
func furnish(dir *os.Root, rec record.Spec) error {
	if err := record.Create(dir, record.SpecFile, rec); err != nil {
		return err
	}
	lock, err := dir.OpenFile(record.LockFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := lock.Close(); err != nil {
		return err
	}
	if err := dir.Mkdir(record.WorkDir, 0o700); err != nil {
		return err
	}
	work, err := dir.OpenRoot(record.WorkDir)
	if err != nil {
		return err
	}
	defer work.Close()
	for _, m := range rec.Mounts {
		rel := strings.TrimPrefix(m.ContainerPath, "/")
		if err := work.MkdirAll(filepath.Dir(rel), 0o700); err != nil {
			return fmt.Errorf("mount at %s: %w", m.ContainerPath, err)
		}
		if err := work.Symlink(m.HostPath, rel); err != nil {
			return fmt.Errorf("mount at %s: %w", m.ContainerPath, err)
		}
	}
	if rec.Root != nil {
		if err := furnishRoot(dir, work, rec.Root); err != nil {
			return err
		}
	}
	if rec.MessagePath == "" {
		return nil
	}
	if err := work.MkdirAll(filepath.Dir(rec.MessagePath), 0o700); err != nil {
		return fmt.Errorf("termination message: %w", err)
	}
	f, err := work.OpenFile(rec.MessagePath, os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil && rec.Root != nil {
		err = errors.Join(f.Chmod(0o666), f.Close()) // the container may have another user
	} else if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("termination message: %w", err)
	}
	return nil
}

// furnishRoot makes the folders of a root file system: those that every container has, and those
// at which volumes are mounted in a folder of the system.
func furnishRoot(dir, work *os.Root, root *record.Root) error {
	if err := work.Chmod(".", 0o755); err != nil {
		return err
	}
	if root.Lower != "" {
		return errors.Join(work.Mkdir(upperDir, 0o755), work.Mkdir(scratchDir, 0o700), work.Mkdir(rootDir, 0o700))
	}
	if err := errors.Join(work.Mkdir("tmp", 0o700), work.Chmod("tmp", 0o777|os.ModeSticky)); err != nil {
		return err
	}
	for _, outer := range root.Mounts {
		if outer.Over == "" {
			continue
		}
		over := filepath.Join(record.OverDir, filepath.Base(outer.Over))
		for _, m := range root.Mounts {
			rel, ok := strings.CutPrefix(m.To, outer.To+"/")
			if !ok {
				continue
			}
			if err := mountPoint(dir, filepath.Join(over, rel), m.File); err != nil {
				return fmt.Errorf("mount at %s: %w", m.To, err)
			}
		}
	}
	return nil
}

// mountPoint makes a folder or file, and the folders above.
func mountPoint(dir *os.Root, name string, file bool) error {
	if !file {
		return dir.MkdirAll(name, 0o755)
	}
	if err := dir.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// RemoveContainer stops the container without a grace period and removes the container's folder.
// The log is kept.
func (r *Runtime) RemoveContainer(ctx context.Context, id runtime.ContainerID) error {
	if err := r.StopContainer(ctx, id, 0); err != nil {
		return err
	}
	s, in, err := r.openContainer(id)
	if err == nil {
		defer s.close()
		defer in.close()
		err = r.removeGroup(ctx, in)
	}
	if err == nil {
		err = r.reclaimContainer(ctx, s, in)
	}
	if err == nil {
		err = notFound(discard(s.dir, in.key.base()))
	}
	if err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	return nil
}
