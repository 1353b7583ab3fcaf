// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package crashtest

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// podState is the state of a pod, known without asking an agent.
type podState struct {
	n int
	// gone: an agent was told, or has found out, that the pod has ended. removed: the agent has
	// reported that nothing is left.
	gone, removed bool
	// started: a container runs. The container keeps the folders of its volumes open, and remembers
	// the content of its subPaths.
	started bool
	folders map[string]inode
	parts   map[string]string
	// version is the last version reported as ready by an agent.
	version int
}

type inode struct{ dev, ino uint64 }

func inodeOf(path string) (inode, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return inode{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return inode{uint64(st.Dev), st.Ino}, nil
}

// world is everything except the agents: the list of pods, containers, objects, the driver, and the
// user's files.
type world struct {
	place
	random *rand.Rand
	driver *driver
	// precious are the user's files.
	precious map[string]string
	// version is the newest version passed to agents.
	version int
	pods    map[int]*podState
	next    int
	// phase is the phase of the running agent.
	phase phase
	// faults are the violations found while an agent ran.
	faults []error
}

func newWorld(t *testing.T, random *rand.Rand) *world {
	t.Helper()
	// The longest path, of the socket, must have less than 100 bytes.
	dir, err := os.MkdirTemp("", "crash")
	require.NoError(t, err)
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	_, none := mount.Detect().(mount.None)
	w := &world{random: random, pods: map[int]*podState{}, version: 1, place: place{
		Root: filepath.Join(dir, "root"), Precious: filepath.Join(dir, "precious"), Socket: filepath.Join(dir, "csi.sock"), Mounts: !none,
	}}
	t.Cleanup(func() { w.close(t, dir) })
	require.NoError(t, os.Mkdir(w.Root, 0o750))
	for _, top := range []string{w.host(), w.local(), filepath.Join(w.csi(), "volumes", handle)} {
		require.NoError(t, os.MkdirAll(filepath.Join(top, "folder", "deeper"), 0o755))
		for _, name := range []string{"data", "folder/data", "folder/deeper/data"} {
			require.NoError(t, os.WriteFile(filepath.Join(top, name), []byte("precious "+filepath.Join(top, name)), 0o644))
		}
	}
	w.makeDevice(t)
	w.precious, err = readTree(w.Precious)
	require.NoError(t, err)
	w.driver = startDriver(t, w.place)
	return w
}

// close removes the world. Folders with mounts left in them stay.
func (w *world) close(t *testing.T, dir string) {
	if w.driver != nil {
		w.driver.stop()
	}
	if left := mountsAtOrBelow(w.mounted(t), dir); len(left) > 0 {
		t.Errorf("left mounted: %q", left)
		slices.Reverse(left)
		for _, target := range left {
			_ = unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
		if left = mountsAtOrBelow(w.mounted(t), dir); len(left) > 0 {
			t.Errorf("cannot be taken away: %q", left)
			return
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// mounted returns the mount points of the kernel's table, in its order. Other processes of this
// machine may have mounts, too.
func (w *world) mounted(t *testing.T) []string {
	t.Helper()
	all, err := mount.Points()
	require.NoError(t, err)
	return all
}

func mountsAtOrBelow(all []string, dir string) []string {
	var out []string
	for _, target := range all {
		if target == dir || strings.HasPrefix(target, dir+"/") {
			out = append(out, target)
		}
	}
	return out
}

// podsWhere returns the sorted numbers of the pods for which f returns true.
func (w *world) podsWhere(f func(*podState) bool) []int {
	var out []int
	for _, n := range slices.Sorted(maps.Keys(w.pods)) {
		if f(w.pods[n]) {
			out = append(out, n)
		}
	}
	return out
}

// plan returns a plan with the present state and without a step.
func (w *world) plan() plan {
	return plan{
		place: w.place, Version: w.version,
		Alive:   w.podsWhere(func(p *podState) bool { return !p.gone }),
		Started: w.podsWhere(func(p *podState) bool { return !p.gone && p.started }),
		Gone:    w.podsWhere(func(p *podState) bool { return p.gone && !p.removed }),
	}
}

// mostPods is the largest number of pods at a time.
const mostPods = 3

// invent returns a plan with a step that leads to the phase aim, if possible now.
func (w *world) invent(aim phase) plan {
	// The cluster deletes a pod without waiting for agents.
	for _, n := range w.podsWhere(func(p *podState) bool { return !p.gone }) {
		if w.random.IntN(12) == 0 {
			w.pods[n].gone = true
		}
	}
	p := w.plan()
	p.Boundaries = changes
	if w.random.IntN(4) == 0 {
		p.Boundaries = everything
	}
	if aim == reconstruction {
		aim = phase(1 + w.random.IntN(int(phases)-1))
	}
	switch {
	case len(p.Alive) == 0:
		aim = mounting
	case aim == mounting && len(p.Alive) >= mostPods:
		aim = unmounting
	}
	p.Step = aim
	switch aim {
	case mounting:
		for range 1 + w.random.IntN(min(2, mostPods-len(p.Alive))) {
			w.next++
			w.pods[w.next] = &podState{n: w.next}
			p.Pods = append(p.Pods, w.next)
		}
	case unmounting:
		p.Pods = slices.Clone(p.Alive)
		w.random.Shuffle(len(p.Pods), func(i, j int) { p.Pods[i], p.Pods[j] = p.Pods[j], p.Pods[i] })
		p.Pods = p.Pods[:1+w.random.IntN(len(p.Pods))]
	}
	return p
}

// end returns a plan in which all pods are gone.
func (w *world) end() plan {
	for _, p := range w.pods {
		p.gone = true
	}
	return w.plan()
}

// told handles a mark of an agent; the agent is stopped meanwhile.
func (w *world) told(m mark, a, b int) {
	switch m {
	case markPhase:
		w.phase = phase(a)
	case markBegin:
		w.version = max(w.version, a)
	case markUp:
		w.pods[a].version = b
	case markStart:
		if err := w.start(w.pods[a]); err != nil {
			w.faults = append(w.faults, err)
		}
	case markGone:
		w.pods[a].gone = true
	case markRemoved:
		w.pods[a].removed = true
	}
}

// start starts a container: it writes to its writable volumes, and keeps its volumes open.
func (w *world) start(p *podState) error {
	p.folders, p.parts = map[string]inode{}, map[string]string{}
	for _, v := range w.volumes() {
		dir := v.path(w.place, p.n)
		at, err := inodeOf(dir)
		if err != nil {
			return err
		}
		p.folders[v.name] = at
		if !v.writable() {
			continue
		}
		if err := os.MkdirAll(filepath.Join(dir, "some", "folder"), 0o755); err != nil {
			return err
		}
		for _, name := range []string{"data", "some/folder/data"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(v.scribble(p.n)), 0o644); err != nil {
				return err
			}
		}
	}
	for _, r := range w.parts(p.n) {
		name := partOf(r)
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		p.parts[name] = string(data)
	}
	p.started = true
	return nil
}

// readTree returns the content of the files below top, and "" for folders. Data of inline volumes
// is left out, because these volumes are created and removed.
func readTree(top string) (map[string]string, error) {
	out := map[string]string{}
	err := filepath.WalkDir(top, func(name string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), "csi-"):
			return filepath.SkipDir
		case d.IsDir():
			out[name] = ""
			return nil
		}
		data, err := os.ReadFile(name)
		out[name] = string(data)
		return err
	})
	return out, err
}
