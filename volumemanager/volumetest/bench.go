// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager"
)

// bench is the environment of a case.
type bench struct {
	*testing.T
	Subject
	root    string
	plugin  volumemanager.Plugin
	outside map[string]string // the original content of Outside
}

func newBench(t *testing.T, h Harness) *bench {
	t.Helper()
	root := t.TempDir()
	require.NotNil(t, h.Open, "volumetest: Harness.Open is required")
	s := h.Open(t, root)
	require.NotNil(t, s.Plugin, "volumetest: Subject.Plugin is required")
	require.NotEmpty(t, s.Spec.InnerName(), "volumetest: Subject.Spec is required")
	b := &bench{T: t, Subject: s, root: root, plugin: s.Plugin()}
	b.neighbours()
	b.outside = b.readOutside()
	t.Cleanup(func() {
		require.Equal(t, b.outside, b.readOutside(), "what lies outside of the volume is not the plugin's")
	})
	return b
}

// neighbours creates files in the root that the plugin must not touch.
func (b *bench) neighbours() {
	p := b.place("pod-0")
	for _, name := range []string{
		filepath.Join(p.PodDir(), "etc-hosts"),
		filepath.Join(p.PodDir(), "volumes", "example.com~other", "v", "data"),
		filepath.Join(p.PodDir(), "example.com~other~v.mount.json"),
		filepath.Join(filepath.Dir(p.Dir()), p.Inner+"-beside", "data"),
		filepath.Join(filepath.Dir(p.StateDir()), p.Inner+"-beside", "ready"),
		filepath.Join(b.root, "pods", "another", "volumes", volumemanager.EscapePluginName(p.Plugin), p.Inner, "data"),
	} {
		require.NoError(b, os.MkdirAll(filepath.Dir(name), 0o750))
		require.NoError(b, os.WriteFile(name, []byte("not yours"), 0o600))
		b.Outside = append(b.Outside, name)
	}
}

// readOutside returns the content of Outside, which must not change.
func (b *bench) readOutside() map[string]string {
	all := map[string]string{}
	for _, top := range b.Outside {
		maps.Copy(all, tree(b.T, top))
	}
	return all
}

// restart replaces the plugin by a new value, as after kill -9.
func (b *bench) restart() { b.plugin = b.Plugin() }

func (b *bench) Plugin() volumemanager.Plugin { return b.Subject.Plugin() }

func (b *bench) place(uid types.UID) volumemanager.Place {
	return volumemanager.Place{Root: b.root, PodUID: uid, Plugin: b.plugin.Name(), Inner: b.Spec.InnerName()}
}

func (b *bench) pod(uid types.UID) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod-" + string(uid), Namespace: "default", UID: uid},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "main", Image: "image", VolumeMounts: []v1.VolumeMount{{Name: b.Spec.InnerName(), MountPath: "/v"}},
		}}},
	}
	if b.Spec.Volume != nil {
		pod.Spec.Volumes = []v1.Volume{*b.Spec.Volume}
	}
	if b.Pod != nil {
		b.Pod(pod)
	}
	return pod
}

func (b *bench) mount(uid types.UID) volumemanager.Mount {
	m := volumemanager.Mount{
		Place: b.place(uid), Spec: b.Spec, Pod: b.pod(uid), Outer: []string{b.Spec.InnerName()}, DeviceDir: b.deviceDir(),
	}
	return m
}

func (b *bench) unmount(uid types.UID) volumemanager.Unmount {
	return volumemanager.Unmount{Place: b.place(uid), Spec: b.Spec, DeviceDir: b.deviceDir()}
}

// stage stages the volume as the manager does before the first SetUp.
func (b *bench) stage() {
	if d, ok := b.plugin.(volumemanager.DeviceMounter); ok && b.deviceDir() != "" {
		require.NoError(b, d.MountDevice(b.Context(), b.device()), "MountDevice")
	}
}

func (b *bench) unstage() {
	if d, ok := b.plugin.(volumemanager.DeviceMounter); ok && b.deviceDir() != "" {
		require.NoError(b, d.UnmountDevice(b.Context(), b.device()), "UnmountDevice")
	}
}

func (b *bench) device() volumemanager.Device {
	return volumemanager.Device{Root: b.root, Spec: b.Spec, Dir: b.deviceDir()}
}

func (b *bench) deviceDir() string {
	d, ok := b.plugin.(volumemanager.DeviceMounter)
	if !ok {
		return ""
	}
	dir, err := d.DeviceDir(b.root, b.Spec)
	require.NoError(b, err, "DeviceDir")
	return dir
}

// setUp sets the volume up for a pod and checks the result.
func (b *bench) setUp(m volumemanager.Mount) volumemanager.Mounted {
	b.Helper()
	var mounted volumemanager.Mounted
	var err error
	if mapper, ok := b.plugin.(volumemanager.BlockMapper); ok && b.Spec.Block() {
		mounted, err = mapper.MapBlock(b.Context(), m)
	} else {
		mounted, err = b.plugin.SetUp(b.Context(), m)
	}
	require.NoError(b, err, "SetUp")
	if mounted.Path != "" {
		require.True(b, filepath.IsAbs(mounted.Path), "Mounted.Path %q is absolute", mounted.Path)
		_, err = os.Stat(mounted.Path)
		require.NoError(b, err, "Mounted.Path exists")
	}
	return mounted
}

func (b *bench) tearDown(u volumemanager.Unmount) {
	b.Helper()
	if mapper, ok := b.plugin.(volumemanager.BlockMapper); ok && b.Spec.Block() {
		require.NoError(b, mapper.UnmapBlock(b.Context(), u), "UnmapBlock")
		return
	}
	require.NoError(b, b.plugin.TearDown(b.Context(), u), "TearDown")
}

// gone checks that nothing of the pod's volume is left.
func (b *bench) gone(uid types.UID) {
	b.Helper()
	p := b.place(uid)
	require.NoFileExists(b, p.Dir(), "TearDown removes Dir")
	require.NoDirExists(b, p.Dir(), "TearDown removes Dir")
	left := tree(b.T, p.StateDir())
	delete(left, p.StateDir())
	require.Empty(b, left, "TearDown removes the plugin's files in StateDir")
}

// tree returns a description of each file and folder at and below top, by path, without following
// links. Times are left out. The map is empty if top does not exist.
func tree(tb testing.TB, top string) map[string]string {
	tb.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) {
				return nil
			}
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			what += " " + target
		case info.Mode().IsRegular():
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			what += fmt.Sprintf(" %x", sha256.Sum256(data))
		}
		all[name] = what
		return nil
	})
	require.NoError(tb, err)
	return all
}

// content returns the files that a container sees at path, with links followed as in the container.
// Top-level names that begin with ".." are left out, because they are the plugin's internals.
func content(tb testing.TB, path string) map[string]string {
	tb.Helper()
	all := map[string]string{}
	info, err := os.Stat(path)
	require.NoError(tb, err)
	if info.Mode().IsRegular() {
		data, err := os.ReadFile(path)
		require.NoError(tb, err)
		return map[string]string{"": string(data)}
	}
	if !info.IsDir() {
		return map[string]string{"": info.Mode().String()}
	}
	entries, err := os.ReadDir(path)
	require.NoError(tb, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		for name, data := range content(tb, filepath.Join(path, e.Name())) {
			all[e.Name()+"/"+name] = data
		}
		if e.IsDir() {
			all[e.Name()+"/"] = "folder"
		}
	}
	return all
}
