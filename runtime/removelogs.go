// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/missing"
)

// LogRemover is an optional ability of a Generator: to remove the log file of a container's
// instance, and the rotated files. The instance has ended and has no record. RemoveLogs touches no
// file outside the pod's log directory, also not through links. Missing logs are no error.
// Manager.GarbageCollect finds remaining logs.
type LogRemover interface {
	RemoveLogs(pod *v1.Pod, container string, restartCount int32) error
}

// prune removes older ended instances of a container, and their logs, after a start. The restart count
// of the new instance is above theirs. The newest ended instance stays: it is the lastState of the
// status, which may not be reported yet (#104107).
func (p *pass) prune(ctx context.Context, name string) {
	newest := true
	keep := map[int32]bool{} // restart counts of kept logs
	var drop []int32
	for i := range p.status.Containers {
		c := &p.status.Containers[i]
		if c.Name != name || c.State == StateCreated {
			continue
		}
		if newest || c.State != StateExited {
			newest, keep[c.RestartCount] = false, true
			continue
		}
		if err := gone(p.m.rt.RemoveContainer(ctx, c.ID)); err != nil {
			keep[c.RestartCount] = true
			if ctx.Err() == nil {
				p.m.log.Warn("could not remove an ended container",
					zap.String("pod", podName(p.pod)), zap.String("container", name), zap.Stringer("containerID", c.ID), zap.Error(err))
			}
		}
		drop = append(drop, c.RestartCount)
	}
	remover, ok := p.m.gen.(LogRemover)
	if !ok {
		return
	}
	for _, count := range drop {
		if keep[count] {
			continue
		}
		if err := remover.RemoveLogs(p.pod, name, count); err != nil {
			p.m.log.Warn("could not remove the logs of an ended container",
				zap.String("pod", podName(p.pod)), zap.String("container", name), zap.Error(err))
		}
	}
}

// RemoveLogs implements LogRemover.
func (g *DefaultGenerator) RemoveLogs(pod *v1.Pod, container string, restartCount int32) error {
	dir, err := g.logDir(pod, container)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(g.opts.LogRoot)
	if err != nil {
		return missing.Ignore(err)
	}
	defer root.Close()
	for _, name := range []string{filepath.Base(filepath.Dir(dir)), container} {
		below, err := openFolder(root, name)
		if err != nil {
			return missing.Ignore(err)
		}
		defer below.Close()
		root = below
	}
	return (&gcDisk{logs: root}).removeFiles(".", fmt.Sprintf("%d.log", restartCount))
}

// openFolder opens a folder in dir. A link is refused, because os.Root would follow the link to
// another pod's folder.
func openFolder(dir *os.Root, name string) (*os.Root, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(dir.Name(), name), Err: errors.New("is not a directory")}
	}
	return dir.OpenRoot(name)
}
