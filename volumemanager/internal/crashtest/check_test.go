// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package crashtest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/volumemanager/plugins/csi"
	"github.com/keelson-dev/keelson/volumemanager/plugins/emptydir"
	"github.com/keelson-dev/keelson/volumemanager/plugins/hostpath"
	"github.com/keelson-dev/keelson/volumemanager/plugins/local"
	"github.com/keelson-dev/keelson/volumemanager/plugins/subpath"
)

func (v volume) writable() bool { return v.plugin == emptydir.Name }

// scribble is the text that the container of a pod writes to a volume.
func (v volume) scribble(pod int) string {
	return strings.Repeat(fmt.Sprintf("pod %d was here, in %s\n", pod, v.name), 20)
}

// partOf returns the file in a data volume that a container gets as a subPath.
func partOf(r subpath.Request) string {
	name := filepath.Join(r.Place.SubpathsDir(), r.Container, strconv.Itoa(r.Index))
	if r.SubPath == "a" {
		return name
	}
	return filepath.Join(name, "data")
}

// check returns the violations of the rules that hold at any time, whenever an agent was killed.
func (w *world) check(t *testing.T) []error {
	t.Helper()
	mounted := w.mounted(t)
	errs := append(w.faults, w.checkPrecious(), w.checkMounts(mounted), w.checkRecords(mounted))
	for _, p := range w.pods {
		switch {
		case p.removed:
			if _, err := os.Lstat(w.podDir(p.n)); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("pod %d was removed, and its folder is there", p.n))
			}
		case !p.gone:
			errs = append(errs, w.checkPod(p, mounted))
		}
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

func (w *world) podDir(pod int) string { return filepath.Join(w.Root, "pods", string(uidOf(pod))) }

// checkPrecious checks that the user's files are unchanged.
func (w *world) checkPrecious() error {
	now, err := readTree(w.Precious)
	if err != nil {
		return err
	}
	if !maps.Equal(now, w.precious) {
		return fmt.Errorf("the user's files are other ones: %d of %d", len(now), len(w.precious))
	}
	return nil
}

// checkMounts checks that each mount belongs to a pod and is not doubled.
func (w *world) checkMounts(mounted []string) error {
	var errs []error
	seen := map[string]bool{}
	for _, target := range mountsAtOrBelow(mounted, filepath.Dir(w.Root)) {
		if seen[target] {
			errs = append(errs, fmt.Errorf("%s is mounted twice", target))
		}
		seen[target] = true
		rel, err := filepath.Rel(w.Root, target)
		owner := strings.Split(rel, "/")
		switch {
		case err == nil && owner[0] == "pods" && len(owner) > 2:
			n, err := strconv.Atoi(strings.TrimPrefix(owner[1], "pod-"))
			if p := w.pods[n]; err != nil || p == nil || p.removed {
				errs = append(errs, fmt.Errorf("%s is mounted for nobody", target))
			}
		case owner[0] == "plugins" && len(owner) > 2 && len(w.podsWhere(func(p *podState) bool { return !p.removed })) > 0:
		default:
			errs = append(errs, fmt.Errorf("%s is mounted for nobody", target))
		}
	}
	return errors.Join(errs...)
}

// checkPod checks that a live pod still has the volumes of its container, with their content.
func (w *world) checkPod(p *podState, mounted []string) error {
	var errs []error
	for _, v := range w.volumes() {
		isMount := slices.Contains(mounted, v.at(w.place, p.n).Dir())
		if w.Mounts && v.memory && !isMount {
			if entries, _ := os.ReadDir(v.at(w.place, p.n).Dir()); len(entries) > 0 {
				errs = append(errs, fmt.Errorf("pod %d: %s is on the disk, not in memory", p.n, v.name))
			}
		}
		if !p.started {
			continue
		}
		if err := w.checkVolume(p, v, isMount); err != nil {
			errs = append(errs, fmt.Errorf("pod %d: volume %s: %w", p.n, v.name, err))
		}
	}
	if !p.started {
		return errors.Join(errs...)
	}
	for name, want := range p.parts {
		if data, err := os.ReadFile(name); err != nil || string(data) != want {
			errs = append(errs, fmt.Errorf("pod %d: part %s holds %.20q…, not %.20q…: %v", p.n, name, data, want, err))
		}
	}
	return errors.Join(errs...)
}

func (w *world) checkVolume(p *podState, v volume, isMount bool) error {
	dir := v.path(w.place, p.n)
	at, err := inodeOf(dir)
	switch {
	case err != nil:
		return err
	case at != p.folders[v.name]:
		return errors.New("its folder is another one than its container has")
	case w.Mounts && v.memory && !isMount:
		return errors.New("is not in memory")
	case v.payload:
		return w.checkPayload(p, v, dir)
	}
	want := v.scribble(p.n)
	switch v.plugin {
	case hostpath.Name:
		want = w.precious[filepath.Join(w.host(), "data")]
	case local.Name:
		want = w.precious[filepath.Join(w.local(), "data")]
		if v.name == "device" {
			want = onDevice
		}
		if err := w.checkFlags(dir); err != nil {
			return err
		}
	case csi.Name:
		if err := w.checkGroup(p, dir); err != nil || v.inner == v.name {
			return err // an inline volume is empty
		}
		want = w.precious[filepath.Join(w.csi(), "volumes", handle, "data")]
	default:
		if err := w.checkGroup(p, dir); err != nil {
			return err
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	if string(data) != want {
		return fmt.Errorf("holds %.60q…, not %.60q…", data, want)
	}
	return nil
}

// checkFlags checks that a mount has its options.
func (w *world) checkFlags(dir string) error {
	if !w.Mounts {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return err
	}
	const want = unix.ST_NOEXEC | unix.ST_NOSUID | unix.ST_NODEV
	if st.Flags&want != want {
		return fmt.Errorf("is mounted with the flags %#x, not %#x", st.Flags&want, want)
	}
	return nil
}

// checkGroup checks that a file or folder belongs to the pod's fsGroup.
func (w *world) checkGroup(p *podState, name string) error {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return err
	}
	if w.grouped(p.n) && st.Gid != group {
		return fmt.Errorf("%s belongs to group %d", name, st.Gid)
	}
	return nil
}

// checkPayload checks that ..data is a complete version of each object, not older than the version
// that the pod has seen.
func (w *world) checkPayload(p *podState, v volume, dir string) error {
	current, err := filepath.EvalSymlinks(filepath.Join(dir, "..data"))
	if err != nil {
		return err
	}
	files := map[string]map[string]string{} // by object, as a folder, and key
	err = filepath.WalkDir(current, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(current, name)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		top := filepath.Dir(rel)
		if files[top] == nil {
			files[top] = map[string]string{}
		}
		files[top][filepath.Base(rel)] = string(data)
		return errors.Join(err, w.checkGroup(p, name))
	})
	if err != nil {
		return err
	}
	if want := map[bool]int{true: 3, false: 1}[v.name == "both"]; len(files) != want {
		return fmt.Errorf("%s holds %d objects, not %d", filepath.Base(current), len(files), want)
	}
	for object, have := range files {
		if err := w.checkObject(p, v, object, have); err != nil {
			return fmt.Errorf("object %s of %s: %w", object, filepath.Base(current), err)
		}
	}
	return nil
}

func (w *world) checkObject(p *podState, v volume, object string, have map[string]string) error {
	var version int
	if _, err := fmt.Sscanf(have["a"], "%d", &version); err != nil {
		return fmt.Errorf("%v: key a: %w", slices.Sorted(maps.Keys(have)), err)
	}
	if version < p.version || version > w.version {
		return fmt.Errorf("is of version %d, not of %d to %d", version, p.version, w.version)
	}
	want := keys(version)
	if v.name == "down" || v.name == "both" {
		delete(want, "only-"+strconv.Itoa(version))
	}
	if v.name == "both" && object == "." {
		delete(want, "b")
	}
	if !maps.Equal(have, want) {
		return fmt.Errorf("version %d: holds keys %v, or not their content", version, slices.Sorted(maps.Keys(have)))
	}
	return nil
}

// settled returns the violations of the rules that hold after an agent has completed its plan.
func (w *world) settled(t *testing.T, p plan) []error {
	t.Helper()
	var errs []error
	for _, n := range w.podsWhere(func(s *podState) bool { return !s.removed }) {
		s := w.pods[n]
		if s.gone || !s.started || s.version != w.version {
			errs = append(errs, fmt.Errorf("pod %d: gone %t, started %t, in version %d", n, s.gone, s.started, s.version))
		}
		for _, v := range w.volumes() {
			record := v.at(w.place, n).Record()
			if _, err := os.Stat(record); err != nil {
				errs = append(errs, err)
			}
		}
	}
	live := len(w.podsWhere(func(s *podState) bool { return !s.removed }))
	staged := 2
	if w.Device != "" {
		staged = 3
	}
	if left, _ := filepath.Glob(filepath.Join(w.Root, "volumemanager/devices/*")); len(left) != min(live, 1)*staged {
		errs = append(errs, fmt.Errorf("records of staged volumes: %q", left))
	}
	errs = append(errs, filepath.WalkDir(filepath.Join(w.Root), func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".tmp") {
			err = fmt.Errorf("%s is left", name)
		}
		return err
	}))
	if live == 0 {
		errs = append(errs, w.checkNothingLeft(t))
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// checkNothingLeft checks that after the end of all pods only the common folders are left.
func (w *world) checkNothingLeft(t *testing.T) error {
	t.Helper()
	var errs []error
	if left := mountsAtOrBelow(w.mounted(t), filepath.Dir(w.Root)); len(left) > 0 {
		errs = append(errs, fmt.Errorf("left mounted: %q", left))
	}
	for _, pattern := range []string{
		"pods/*", "plugins/kubernetes.io/csi/*/*", "plugins/kubernetes.io/local-volume/mounts/*", "volumemanager/devices/*",
	} {
		if left, err := filepath.Glob(filepath.Join(w.Root, pattern)); err != nil || len(left) > 0 {
			errs = append(errs, fmt.Errorf("left: %q", left))
		}
	}
	if left, err := filepath.Glob(filepath.Join(w.csi(), "volumes", "csi-*")); err != nil || len(left) > 0 {
		errs = append(errs, fmt.Errorf("inline volumes are left: %q", left))
	}
	errs = append(errs, w.checkDevice())
	if d := w.driver; len(d.published)+len(d.staged) > 0 {
		errs = append(errs, fmt.Errorf("the driver still has published %v, staged %v", d.published, d.staged))
	}
	err := filepath.WalkDir(w.Root, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			err = fmt.Errorf("%s is left", name)
		}
		return err
	})
	return errors.Join(append(errs, err)...)
}
