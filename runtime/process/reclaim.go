// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"

	"github.com/keelson-dev/keelson/internal/diskuse"
	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
	"github.com/keelson-dev/keelson/runtime/process/internal/stage"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// foreignDir is a folder of a sandbox. The folder exists if files of the sandbox's containers may belong to subordinate
// users. The folder has links to the volumes with such files that end with the pod.
const foreignDir = "foreign"

// expectForeign notes that a container will make files of other users, before the container exists.
func (s *sandbox) expectForeign(rec *record.Spec) error {
	if rec.Root == nil || !rec.Root.MapsIDs() {
		return nil
	}
	if err := s.dir.MkdirAll(foreignDir, 0o700); err != nil {
		return err
	}
	for _, m := range rec.Root.Mounts {
		if !m.Passing || m.ReadOnly || m.File {
			continue
		}
		folder, err := filepath.EvalSymlinks(m.From)
		if err != nil {
			return err
		}
		name := fnv.New64a()
		_, _ = io.WriteString(name, folder)
		if err := s.dir.Symlink(folder, fmt.Sprintf("%s/%x", foreignDir, name.Sum64())); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// reclaimSandbox makes the files of a stopped sandbox's containers, and of the volumes that end with the pod, belong to
// the agent's user. Otherwise the agent could not remove them.
func (r *Runtime) reclaimSandbox(ctx context.Context, s *sandbox) error {
	links, err := tree.List(s.dir, foreignDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	folders := []string{filepath.Join(r.root, s.key.dir())}
	for _, l := range links {
		folder, readErr := s.dir.Readlink(foreignDir + "/" + l.Name)
		err = errors.Join(err, readErr)
		// A container may have made the subPath of a mount a link to files of others, or removed it.
		if now, _ := filepath.EvalSymlinks(folder); now == folder {
			folders = append(folders, folder)
		}
	}
	if err == nil {
		err = r.reclaim(ctx, s, folders)
	}
	if err == nil {
		err = tree.RemoveAll(s.dir, foreignDir)
	}
	return err
}

// reclaimContainer makes the files of an ended container belong to the agent's user.
func (r *Runtime) reclaimContainer(ctx context.Context, s *sandbox, in *instance) error {
	if _, err := s.dir.Lstat(foreignDir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return r.reclaim(ctx, s, []string{in.path})
}

// reclaim makes the files in folders belong to the agent's user, unless the user is root now. If ctx ends, the next try
// finds less to do.
func (r *Runtime) reclaim(ctx context.Context, s *sandbox, folders []string) error {
	if !r.host.OwnUser() {
		return nil
	}
	_, err := r.asRoot(ctx, cmp.Or(s.rec.IDs, r.ids), append([]string{record.ReclaimName}, folders...))
	if err != nil {
		err = fmt.Errorf("take the files of subordinate users: %w", err)
	}
	return err
}

// DiskUsage implements stats.DiskMeter.
func (r *Runtime) DiskUsage(ctx context.Context, folder string) (stats.FileSystem, error) {
	used, err := r.measure(ctx, folder)
	return stats.FileSystem{At: used.At, UsedBytes: used.Bytes, InodesUsed: used.Inodes}, err
}

// measure returns the disk usage of a folder with files of subordinate users.
func (r *Runtime) measure(ctx context.Context, folder string) (used diskuse.Usage, err error) {
	if r.ids == nil {
		return used, fs.ErrPermission
	}
	raw, err := r.asRoot(ctx, r.ids, []string{record.MeasureName, folder})
	if err == nil {
		err = json.Unmarshal(raw, &used)
	}
	return used, err
}

// asRoot runs a command of package shim as root of a user namespace with subordinate IDs, and returns its output.
func (r *Runtime) asRoot(ctx context.Context, ids *record.IDs, args []string) ([]byte, error) {
	users := r.users
	switch {
	case ids == nil:
		return nil, errors.New("the subordinate IDs are not known")
	case r.ids == nil || *ids != *r.ids: // of an agent with other IDs
		var err error
		if users, err = openUsers(*ids); err != nil {
			return nil, err
		}
		defer users.Close()
	}
	program, err := r.shimProgram()
	if err != nil {
		return nil, err
	}
	hear, say, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer hear.Close()
	goruntime.LockOSThread() // the process ends with the thread
	defer goruntime.UnlockOSThread()
	p, err := stage.Start(stage.Command{
		Programs: []string{program}, Args: args, Env: shimEnvironment(), Dir: "/",
		Files: [3]*os.File{1: say, 2: say}, Walls: record.Walls{NoNewPrivs: true}, As: users,
	})
	_ = say.Close()
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = p.Kill() })()
	raw, err := io.ReadAll(io.LimitReader(hear, 4096))
	state, waited := p.Wait()
	if err = cmp.Or(context.Cause(ctx), err, waited); err == nil && !state.Success() {
		err = fmt.Errorf("%v: %s", state, strings.TrimSpace(string(raw)))
	}
	return raw, err
}
