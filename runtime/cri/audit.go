// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/internal/sorted"
	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
)

// containerd (1.6 to 2.4) may lose a shim. When the client of a RunPodSandbox is killed while the
// shim starts, containerd removes the shim's folder and not the shim. When containerd itself is
// killed then, 1.6 forgets the sandbox and keeps the folder, the shim, and the processes below the
// shim. Neither the CRI nor containerd's task service can end such a shim. The audit therefore
// finds shims in /proc by the containerd socket in their arguments, and asks containerd whether the
// shim's sandbox is known.

// collectTime bounds how long Collect waits for the processes killed by Collect to end.
const collectTime = 10 * time.Second

// Leftovers implements runtime.Auditor. Leftovers finds shims of the runtime behind the endpoint
// whose sandbox the runtime does not know, and processes below known shims in containers unknown to
// the runtime. The result is empty for a runtime other than containerd.
func (r *client) Leftovers(ctx context.Context) ([]runtime.Leftover, error) {
	if r.info.Name != "containerd" {
		return nil, nil
	}
	// The order matters: containerd knows a container before containerd makes a process for the
	// container. If a listed process is in a container unknown to the later lists, the process has
	// lost its container.
	shims, err := proc.Places(r.isOwnShim)
	if err != nil || len(shims) == 0 {
		return nil, err
	}
	all, err := proc.All()
	if err != nil {
		return nil, err
	}
	known, err := r.knownIDs(ctx)
	if err != nil {
		return nil, err
	}
	var out []runtime.Leftover
	var errs []error
	for pid, place := range shims {
		found, err := r.auditShim(ctx, known, pid, place, all)
		out = append(out, found...)
		errs = append(errs, err)
	}
	sorted.By(out, func(a, b runtime.Leftover) int { return cmp.Compare(a.PID, b.PID) })
	return out, errors.Join(errs...)
}

// isOwnShim reports whether the arguments are those of a shim of the containerd behind the
// endpoint's socket. The path may be written in two ways.
func (r *client) isOwnShim(args []string) bool {
	s, ok := parseShim(args)
	if !ok || s.namespace != criNamespace {
		return false
	}
	if s.address == r.socket {
		return true
	}
	theirs, err := os.Stat(s.address)
	if err != nil {
		return false
	}
	own, err := os.Stat(r.socket)
	return err == nil && os.SameFile(own, theirs)
}

// auditShim judges one shim and the processes below the shim.
func (r *client) auditShim(ctx context.Context, known map[string]bool, pid int, place proc.Place, all []proc.Info) ([]runtime.Leftover, error) {
	args, _ := parseShim(place.Args)
	facts := shimFacts{id: args.id}
	var err error
	if facts.known, err = r.isKnown(ctx, known, args.id); err != nil {
		return nil, err
	}
	if !facts.known { // almost always known, and the folder has a large file
		facts.bundle = readBundle(place.Dir)
	}
	for _, p := range all {
		if p.PPID != pid || p.Zombie {
			continue
		}
		child := childFacts{pid: p.PID, id: cgroupOwner(p.PID)}
		if child.id != "" {
			if child.known, err = r.isKnown(ctx, known, child.id); err != nil {
				return nil, err
			}
		}
		facts.children = append(facts.children, child)
	}
	return judgeShim(pid, facts), nil
}

// knownIDs returns the IDs of all sandboxes and containers listed by the CRI, and the sandbox IDs
// of the listed containers.
func (r *client) knownIDs(ctx context.Context) (map[string]bool, error) {
	sandboxes, err := do(ctx, callTimeout, "ListPodSandbox", r.cri.ListPodSandbox, &api.ListPodSandboxRequest{})
	if err != nil {
		return nil, err
	}
	containers, err := do(ctx, callTimeout, "ListContainers", r.cri.ListContainers, &api.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	known := make(map[string]bool)
	for _, s := range sandboxes.GetItems() {
		known[s.GetId()] = true
	}
	for _, c := range containers.GetContainers() {
		known[c.GetId()], known[c.GetPodSandboxId()] = true, true
	}
	return known, nil
}

// isKnown reports whether the CRI lists the ID, or containerd has a container, task or sandbox of
// the ID. The CRI does not list a sandbox under construction.
func (r *client) isKnown(ctx context.Context, listed map[string]bool, id string) (bool, error) {
	if known, asked := listed[id]; asked {
		return known, nil
	}
	for _, service := range []string{containersService, tasksService, sandboxesService} {
		err := r.callContainerd(ctx, service, "Get", idMessage(id))
		e, ok := errors.AsType[*CallError](err)
		switch {
		case err == nil:
			listed[id] = true
			return true, nil
		case ok && e.Code == codes.NotFound:
		case ok && e.Code == codes.Unimplemented && service == sandboxesService: // containerd 1.6 has no sandbox service
		default:
			return false, err
		}
	}
	listed[id] = false
	return false, nil
}

// cgroupOwner returns the ID of the container whose cgroup the process is in, or "" for a process
// in no container's cgroup. A cgroup below the container's makes no difference.
func cgroupOwner(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return ""
	}
	return containerIDIn(string(text))
}

// readBundle reads containerd's notes in a shim's folder.
func readBundle(dir string) bundleFacts {
	if strings.HasSuffix(dir, " (deleted)") {
		return bundleFacts{gone: true}
	}
	const most = 4 << 20
	f, err := os.OpenFile(filepath.Join(dir, "config.json"), os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return bundleFacts{}
	}
	defer f.Close()
	var spec struct {
		Annotations map[string]string `json:"annotations"`
	}
	if json.NewDecoder(io.LimitReader(f, most)).Decode(&spec) != nil {
		return bundleFacts{}
	}
	return bundleOf(spec.Annotations)
}

// Collect implements runtime.Auditor.
func (r *client) Collect(ctx context.Context, l runtime.Leftover) error {
	if !l.Ours {
		return fmt.Errorf("%s: it is not proven to be this runtime's", l)
	}
	ctx, cancel := context.WithTimeout(ctx, collectTime)
	defer cancel()
	info, err := proc.Lookup(l.PID)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return err
	}
	held, err := info.Ref.Open()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer held.Close()
	// The facts gathered from here on apply to the held process.
	found, err := r.Leftovers(ctx)
	if !slices.ContainsFunc(found, func(f runtime.Leftover) bool { return f.Ours && f.PID == l.PID && f.Kind == l.Kind && f.ID == l.ID }) {
		return err
	}
	switch l.Kind {
	case runtime.LeftoverProcess:
		return endProcess(ctx, held)
	case runtime.LeftoverShim:
		place, _ := proc.PlaceOf(l.PID, func(args []string) bool { s, ok := parseShim(args); return ok && s.id == l.ID })
		if err := endShim(ctx, held); err != nil {
			return err
		}
		return removeBundle(ctx, place.Dir, l.ID)
	}
	return fmt.Errorf("%s: this backend leaves no %s behind", l, l.Kind)
}

func endProcess(ctx context.Context, held *proc.Handle) error {
	if err := held.Signal(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return held.Wait(ctx)
}

// endShim kills a shim and all processes below the shim, and removes the shim's sockets.
func endShim(ctx context.Context, shim *proc.Handle) error {
	all, err := proc.All()
	if err != nil {
		return err
	}
	sockets := listensOn(shim.PID())
	var below []*proc.Handle
	for _, p := range proc.Descendants(all, shim.PID()) {
		if h, err := p.Ref.Open(); err == nil {
			defer h.Close()
			below = append(below, h)
		}
	}
	errs := []error{endProcess(ctx, shim)}
	for _, h := range below {
		errs = append(errs, endProcess(ctx, h))
	}
	for _, path := range sockets {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// removeBundle waits until containerd has removed the folder of a killed shim. containerd does so
// for a shim with a connection. A shim never asked to make a container has no connection. Then
// removeBundle removes the folder, in which nothing is mounted, and the folder of the container's
// files.
func removeBundle(ctx context.Context, dir, id string) error {
	if filepath.Base(dir) != id {
		return nil // the folder is gone: containerd renames before removing
	}
	const patience = 3 * time.Second
	for began := time.Now(); time.Since(began) < patience; {
		if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if retry.Sleep(ctx, 50*time.Millisecond) != nil {
			return ctx.Err()
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "runtime")); err == nil {
		return fmt.Errorf("containerd has not removed %s: restart containerd", dir)
	}
	work, err := os.Readlink(filepath.Join(dir, "work"))
	errs := []error{removeFolder(dir)}
	if err == nil && filepath.Base(work) == id && filepath.IsAbs(work) {
		errs = append(errs, removeFolder(work))
	}
	return errors.Join(errs...)
}

func removeFolder(dir string) error {
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	return tree.RemoveAll(parent, filepath.Base(dir))
}

// listensOn returns the paths of the process's listening unix sockets.
func listensOn(pid int) []string {
	dir := fmt.Sprintf("/proc/%d/", pid)
	fds, err := os.ReadDir(dir + "fd")
	if err != nil {
		return nil
	}
	open := make(map[string]bool)
	for _, fd := range fds {
		if to, err := os.Readlink(dir + "fd/" + fd.Name()); err == nil {
			open[to] = true
		}
	}
	text, err := os.ReadFile(dir + "net/unix")
	if err != nil {
		return nil
	}
	return listeners(string(text), open)
}
