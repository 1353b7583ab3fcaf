// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// Leftovers implements runtime.Auditor. Leftovers finds shims of removed containers, processes with
// the mark of an ended or removed container, abandoned folders (half made or half removed, and
// unlocked), and folders of pods without a sandbox.
func (r *Runtime) Leftovers(ctx context.Context) ([]runtime.Leftover, error) {
	marked, markedErr := proc.Marked(record.IDEnv) // first: a shim lives before and after its processes
	places, placesErr := proc.Places(isAnyShim)
	processes, processesErr := r.orphanProcesses(ctx, marked, places)
	folders, foldersErr := r.orphanFolders(ctx)
	return slices.Concat(r.orphanShims(places), processes, folders), errors.Join(markedErr, placesErr, processesErr, foldersErr)
}

// isAnyShim recognizes each shim, and each keeper of a network, by its arguments.
func isAnyShim(args []string) bool {
	return len(args) == 2 && args[0] == record.ShimName || isAnyKeeper(args)
}

// isOwn recognizes each shim, and each keeper of a network, below Options.Root by its arguments.
func (r *Runtime) isOwn(args []string) bool {
	return isAnyShim(args) && strings.HasPrefix(args[1], r.root+string(filepath.Separator))
}

// orphanShims finds shims whose container's folder was deleted or renamed, and keepers of networks
// whose sandbox's folder was.
func (r *Runtime) orphanShims(places map[int]proc.Place) (out []runtime.Leftover) {
	for pid, place := range places {
		_, inPlace := r.keyOfFolder(place.Dir)
		if isAnyKeeper(place.Args) {
			inPlace = strings.HasSuffix(place.Dir, string(filepath.Separator)+lastElements(place.Args[1], 2))
		}
		if _, gone := os.Lstat(place.Dir); !r.isOwn(place.Args) || inPlace && gone == nil {
			continue
		}
		l := runtime.Leftover{Kind: runtime.LeftoverShim, PID: pid, Ours: true,
			Why: "its arguments are a folder below " + r.root + ", and it lives in " + place.Dir}
		if key, ok := r.keyOfFolder(place.Args[1]); ok {
			l.ID, l.PodUID = key.id().ID, key.sandbox.uid
		}
		out = append(out, l)
	}
	return out
}

// keyOfFolder reads the path of a container's folder. The root may be a link.
func (r *Runtime) keyOfFolder(dir string) (containerKey, bool) {
	root := r.root
	if real, err := filepath.EvalSymlinks(root); err == nil && !strings.HasPrefix(dir, root+string(filepath.Separator)) {
		root = real
	}
	rel, err := filepath.Rel(root, dir)
	part := strings.Split(rel, string(filepath.Separator))
	if err != nil || len(part) != 3 {
		return containerKey{}, false
	}
	sandbox, ok := parseSandboxDir(types.UID(part[0]), part[1])
	if !ok {
		return containerKey{}, false
	}
	return parseContainerDir(sandbox, part[2])
}

// orphanProcesses finds processes with the mark of a container that does not run.
func (r *Runtime) orphanProcesses(ctx context.Context, marked map[int]string, shims map[int]proc.Place) ([]runtime.Leftover, error) {
	var errs []error
	supervised := map[string]bool{} // by containerKey.dir
	for _, shim := range shims {
		supervised[lastElements(shim.Args[1], 3)] = true
	}
	var out []runtime.Leftover
	runs := map[string]bool{} // by container ID; filled by accountsFor
	for pid, id := range marked {
		key, ok := parseContainerID(runtime.ContainerID{Runtime: name, ID: id})
		if !ok || supervised[key.dir()] { // by a shim that may be below another root; orphanShims reports orphaned shims
			continue
		}
		known, err := r.accountsFor(ctx, key, runs)
		if err != nil {
			errs = append(errs, err)
		}
		if known || err != nil {
			continue
		}
		l := runtime.Leftover{Kind: runtime.LeftoverProcess, PID: pid, ID: id, PodUID: key.sandbox.uid}
		work := envRoot + "=" + filepath.Join(r.root, key.dir(), record.WorkDir)
		switch _, gone := os.Lstat(filepath.Join(r.root, key.dir())); {
		case gone == nil:
			l.Ours, l.Why = true, "it carries the mark of a container below "+r.root+" that has ended"
		case proc.HasEnv(pid, work):
			l.Ours, l.Why = true, "it carries the mark and the working folder of a container below "+r.root+" that is gone"
		default:
			l.Why = "it carries the mark of a container that is not below " + r.root + "; it may be another agent's"
		}
		out = append(out, l)
	}
	return out, errors.Join(errs...)
}

// lastElements returns the last n elements of a path.
func lastElements(path string, n int) string {
	at := len(path)
	for range n {
		if at = strings.LastIndexByte(path[:at], filepath.Separator); at < 0 {
			return path
		}
	}
	return path[at+1:]
}

// accountsFor reports whether a container runs or may run. The processes of such a container are no
// leftovers.
func (r *Runtime) accountsFor(ctx context.Context, key containerKey, runs map[string]bool) (bool, error) {
	id := key.id()
	if known, seen := runs[id.ID]; seen {
		return known, nil
	}
	s, in, err := r.openContainer(id)
	if errors.Is(err, runtime.ErrNotFound) {
		runs[id.ID] = false
		return false, nil
	}
	if err != nil {
		return true, err
	}
	defer s.close()
	defer in.close()
	_, f, err := r.look(in, searchHint)
	if errors.Is(err, runtime.ErrNotFound) {
		err = nil
	}
	if ctx.Err() != nil {
		return true, ctx.Err()
	}
	v := judge(f)
	runs[id.ID] = f.locked || f.shim || v != verdictExited && v != verdictCreated
	return runs[id.ID], err
}

// orphanFolders finds abandoned folders and folders of pods without a sandbox.
func (r *Runtime) orphanFolders(ctx context.Context) ([]runtime.Leftover, error) {
	root, err := r.openRoot()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	uids, err := r.uids()
	errs := []error{err}
	var out []runtime.Leftover
	for _, uid := range uids {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		names, err := foldersIn(root, string(uid))
		errs = append(errs, err)
		half := r.halfDone(root, uid, string(uid), names)
		sandboxes := 0
		for _, name := range names {
			key, ok := parseSandboxDir(uid, name)
			if !ok {
				continue
			}
			sandboxes++
			inside, err := foldersIn(root, key.dir())
			errs = append(errs, err)
			half = append(half, r.halfDone(root, uid, key.dir(), inside)...)
		}
		out = append(out, half...)
		if sandboxes == 0 && len(half) == len(names) {
			out = append(out, runtime.Leftover{Kind: runtime.LeftoverFolder, Path: filepath.Join(r.root, string(uid)), PodUID: uid, Ours: true,
				Why: "the folder of a pod without a sandbox, below " + r.root})
		}
	}
	return out, errors.Join(errs...)
}

// halfDone returns the abandoned folders among names in the folder rel. A call was making or
// removing such a folder when the agent was killed.
func (r *Runtime) halfDone(root *os.Root, uid types.UID, rel string, names []string) (out []runtime.Leftover) {
	for _, name := range names {
		at := filepath.Join(rel, name)
		l := runtime.Leftover{Kind: runtime.LeftoverFolder, Path: filepath.Join(r.root, at), PodUID: uid, Ours: true}
		switch {
		case strings.HasPrefix(name, gonePrefix):
			l.Why = "its removal was not finished"
		case strings.HasPrefix(name, newPrefix):
			lock, err := record.LockFolder(root, at)
			if err != nil {
				continue // a call is making the folder, or has just renamed it
			}
			_ = lock.Close()
			l.Why = "it was never finished, and no call holds its lock"
		default:
			continue
		}
		out = append(out, l)
	}
	return out
}

// Collect implements runtime.Auditor.
func (r *Runtime) Collect(ctx context.Context, l runtime.Leftover) error {
	if !l.Ours {
		return fmt.Errorf("%s: it is not proven to be this backend's", l)
	}
	switch l.Kind {
	case runtime.LeftoverShim:
		return r.collectShim(ctx, l)
	case runtime.LeftoverProcess:
		ctx, cancel := context.WithTimeout(ctx, cleanUpTime)
		defer cancel()
		return proc.KillMarked(ctx, record.IDEnv+"="+l.ID, proc.Ref{})
	case runtime.LeftoverFolder:
		return notLeft(r.collectFolder(l))
	}
	return fmt.Errorf("%s: this backend leaves no %s behind", l, l.Kind)
}

// collectShim makes an orphaned shim end the container.
func (r *Runtime) collectShim(ctx context.Context, l runtime.Leftover) error {
	h, err := proc.HoldAt(proc.Ref{PID: l.PID}, r.isOwn)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return err
	}
	place, ok := proc.PlaceOf(l.PID, r.isOwn) // again, while the pidfd keeps the PID from being reused
	if ok && len(r.orphanShims(map[int]proc.Place{l.PID: place})) > 0 {
		return endShim(ctx, h, 0)
	}
	h.Close()
	return nil
}

// collectFolder removes a folder that is half made, half removed, or empty.
func (r *Runtime) collectFolder(l runtime.Leftover) error {
	rel, err := filepath.Rel(r.root, l.Path)
	if err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("%s is not below %s", l.Path, r.root)
	}
	root, err := r.openRoot()
	if err != nil {
		return err
	}
	defer root.Close()
	name := filepath.Base(rel)
	if filepath.Dir(rel) == "." { // the folder of a pod
		r.pods.Lock()
		defer r.pods.Unlock()
		return root.Remove(name) // fails if the folder is not empty
	}
	parent, err := root.OpenRoot(filepath.Dir(rel))
	if err != nil {
		return err
	}
	defer parent.Close()
	switch {
	case strings.HasPrefix(name, gonePrefix):
		return tree.RemoveAll(parent, name)
	case strings.HasPrefix(name, newPrefix):
		lock, err := record.LockFolder(parent, name)
		if err != nil {
			return err
		}
		defer lock.Close()
		return tree.RemoveAll(parent, name)
	}
	return fmt.Errorf("%s is named like a sandbox or container", l.Path)
}

// notLeft returns nil for the error of a folder that was removed or is used again, else err.
func notLeft(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, record.ErrLocked) || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
