// SPDX-License-Identifier: Apache-2.0

package configmap_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/configmap"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/plugins/subpath"
)

const secretText = "never to be seen in an error"

// world is a root with a pod, and a store of objects.
type world struct {
	*testing.T
	store  *objects.Store
	plugin *configmap.Plugin
	root   string
	pod    *v1.Pod
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := objects.NewStore(objects.Options{})
	require.NoError(t, err)
	w := &world{T: t, store: store, root: mounttest.Dir(t), pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"}}}
	w.plugin, err = configmap.New(configmap.Options{Source: store})
	require.NoError(t, err)
	return w
}

func (w *world) set(data map[string]string) {
	w.store.SetConfigMap(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "config"}, Data: data})
}

func (w *world) mount(v *v1.Volume) volumemanager.Mount {
	return volumemanager.Mount{
		Place: volumemanager.Place{Root: w.root, PodUID: w.pod.UID, Plugin: configmap.Name, Inner: v.Name},
		Spec:  volumemanager.Spec{Volume: v}, Pod: w.pod, Outer: []string{v.Name},
	}
}

// seen returns the files that a container sees: contents by path.
func (w *world) seen(dir string) map[string]string {
	w.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(w, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		name := filepath.Join(dir, e.Name())
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			for k, text := range w.seen(name) {
				out[e.Name()+"/"+k] = text
			}
			continue
		}
		data, err := os.ReadFile(name)
		require.NoError(w, err)
		out[e.Name()] = string(data)
	}
	return out
}

func TestKeysBecomeFiles(t *testing.T) {
	yes, mode := true, int32(0o400)
	for _, tc := range []struct {
		name string
		edit func(*v1.ConfigMapVolumeSource)
		want map[string]string
		err  string
	}{
		{"all", nil, map[string]string{"a": "1", "b": "2"}, ""},
		{"items", func(s *v1.ConfigMapVolumeSource) {
			s.Items = []v1.KeyToPath{{Key: "a", Path: "deep/er/a.conf", Mode: &mode}}
		}, map[string]string{"deep/er/a.conf": "1"}, ""},
		{"item twice, later wins", func(s *v1.ConfigMapVolumeSource) {
			s.Items = []v1.KeyToPath{{Key: "a", Path: "x"}, {Key: "b", Path: "./x"}}
		}, map[string]string{"x": "2"}, ""},
		{"unknown key", func(s *v1.ConfigMapVolumeSource) {
			s.Items = []v1.KeyToPath{{Key: "zz", Path: "x"}}
		}, nil, `volume "config": configMap ns/config: references non-existent key "zz"`},
		{"unknown optional key", func(s *v1.ConfigMapVolumeSource) {
			s.Optional, s.Items = &yes, []v1.KeyToPath{{Key: "zz", Path: "x"}, {Key: "a", Path: "a"}}
		}, map[string]string{"a": "1"}, ""},
		{"unknown object", func(s *v1.ConfigMapVolumeSource) { s.Name = "other" }, nil,
			`volume "config": configMap ns/other: configmaps "other" not found`},
		{"unknown optional object", func(s *v1.ConfigMapVolumeSource) { s.Name, s.Optional = "other", &yes }, map[string]string{}, ""},
		{"climbs", func(s *v1.ConfigMapVolumeSource) {
			s.Items = []v1.KeyToPath{{Key: "a", Path: "../../etc/passwd"}}
		}, nil, `volume "config": configMap ns/config: key "a": path "../../etc/passwd" has a ".."`},
		{"absolute", func(s *v1.ConfigMapVolumeSource) {
			s.Items = []v1.KeyToPath{{Key: "a", Path: "/etc/passwd"}}
		}, nil, `is absolute`},
		{"reserved", func(s *v1.ConfigMapVolumeSource) {
			s.Items = []v1.KeyToPath{{Key: "a", Path: "..data/x"}}
		}, nil, `begins with ".."`},
		{"long", func(s *v1.ConfigMapVolumeSource) {
			s.Items = []v1.KeyToPath{{Key: "a", Path: strings.Repeat("x", 256)}}
		}, nil, `is too long`},
		{"file and folder", func(s *v1.ConfigMapVolumeSource) {
			s.Items = []v1.KeyToPath{{Key: "a", Path: "x"}, {Key: "b", Path: "x/y"}}
		}, nil, `is a file and also a folder`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.set(map[string]string{"a": "1", "b": "2"})
			m := w.mount(volume("config", tc.edit))
			out, err := w.plugin.SetUp(t.Context(), m)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, volumemanager.Mounted{Path: m.Dir(), ReadOnly: true, Managed: true, SELinuxRelabel: true}, out)
			assert.Equal(t, tc.want, w.seen(m.Dir()))
		})
	}
}

// TestUpstream64788MissingObjectLeavesNothingBehind: the content is fetched before any folder is
// created (64788).
func TestUpstream64788MissingObjectLeavesNothingBehind(t *testing.T) {
	w := newWorld(t)
	_, err := w.plugin.SetUp(t.Context(), w.mount(volume("config", nil)))
	require.ErrorIs(t, err, volumemanager.ErrTransient)
	assert.NoDirExists(t, filepath.Join(w.root, "pods"))
}

// TestOnlyNotFoundIsForgiven: an optional object in an unknown state does not count as missing.
func TestOnlyNotFoundIsForgiven(t *testing.T) {
	w := newWorld(t)
	w.set(map[string]string{"a": "1"})
	yes := true
	m := w.mount(volume("config", func(s *v1.ConfigMapVolumeSource) { s.Optional = &yes }))
	_, err := w.plugin.SetUp(t.Context(), m)
	require.NoError(t, err)
	p, err := configmap.New(configmap.Options{Source: configmap.SourceFunc(
		func(context.Context, string, string) (*v1.ConfigMap, error) {
			return nil, errors.New("the API server is away")
		})})
	require.NoError(t, err)
	m.Remount = true
	_, err = p.SetUp(t.Context(), m)
	require.ErrorContains(t, err, "away")
	assert.Equal(t, map[string]string{"a": "1"}, w.seen(m.Dir()))

	w.store.Delete(objects.Ref{Kind: objects.ConfigMap, Namespace: "ns", Name: "config"})
	_, err = w.plugin.SetUp(t.Context(), m)
	require.NoError(t, err)
	assert.Empty(t, w.seen(m.Dir()), "this time it is not there")
}

func TestHostileKeys(t *testing.T) {
	for name, key := range map[string]string{
		"climbs": "../../../escape", "absolute": "/escape", "reserved": "..data", "mebibyte": strings.Repeat("k", 1<<20), "nul": "a\x00b", "empty": "",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.set(map[string]string{key: secretText})
			_, err := w.plugin.SetUp(t.Context(), w.mount(volume("config", nil)))
			require.ErrorContains(t, err, `volume "config": configMap ns/config: key `)
			assert.NotContains(t, err.Error(), secretText)
			assert.Less(t, len(err.Error()), 400)
			assert.NoDirExists(t, filepath.Join(w.root, "pods"))
		})
	}
}

// TestUpstream113242FullDiskKeepsTheLastGoodContent: on a full disk a refresh fails, its error
// names the volume and key, and the volume is unchanged. Once there is room, the refresh succeeds.
func TestUpstream113242FullDiskKeepsTheLastGoodContent(t *testing.T) {
	w := newWorld(t)
	w.root = mounttest.Tmpfs(t, "256k")
	w.set(map[string]string{"a": "old"})
	m := w.mount(volume("config", nil))
	_, err := w.plugin.SetUp(t.Context(), m)
	require.NoError(t, err)
	before, err := os.Stat(m.Dir())
	require.NoError(t, err)

	w.set(map[string]string{"big": strings.Repeat(secretText, 1<<14), "a": "new"})
	m.Remount = true
	for range 3 {
		_, err = w.plugin.SetUp(t.Context(), m)
		require.ErrorContains(t, err, `volume "config": path "big": no space left on device`)
		assert.NotContains(t, err.Error(), secretText)
		assert.Equal(t, map[string]string{"a": "old"}, w.seen(m.Dir()))
	}
	w.set(map[string]string{"a": "new"})
	_, err = w.plugin.SetUp(t.Context(), m)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "new"}, w.seen(m.Dir()))
	after, err := os.Stat(m.Dir())
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after))
	require.NoError(t, w.plugin.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place, Spec: m.Spec}))
}

func TestReadOnlyDiskIsAnError(t *testing.T) {
	w := newWorld(t)
	w.root = mounttest.Tmpfs(t, "256k")
	w.set(map[string]string{"a": "old"})
	m := w.mount(volume("config", nil))
	_, err := w.plugin.SetUp(t.Context(), m)
	require.NoError(t, err)
	bound := filepath.Join(t.TempDir(), "ro")
	mounttest.Mount(t, mount.Request{Source: w.root, Target: bound, Options: []string{"bind", "ro"}})
	w.root = bound
	w.set(map[string]string{"a": "new"})
	m = w.mount(volume("config", nil))
	m.Remount = true
	_, err = w.plugin.SetUp(t.Context(), m)
	require.ErrorContains(t, err, `volume "config": `)
	require.ErrorContains(t, err, "read-only file system")
	assert.Equal(t, map[string]string{"a": "old"}, w.seen(m.Dir()))
}

// TestPlantedLinks: if containers can write to the volume (a process backend), they create links,
// pipes and folders.
func TestPlantedLinks(t *testing.T) {
	w := newWorld(t)
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "a"), []byte("precious"), 0o600))
	w.set(map[string]string{"a": "1", "b": "2"})
	m := w.mount(volume("config", nil))
	_, err := w.plugin.SetUp(t.Context(), m)
	require.NoError(t, err)
	for _, name := range []string{"..data", "a", "..data_tmp"} {
		path := filepath.Join(m.Dir(), name)
		_ = os.Remove(path)
		require.NoError(t, os.Symlink(outside, path))
	}
	require.NoError(t, os.Symlink(outside, filepath.Join(m.Dir(), "..2020_01_01_00_00_00.1")))
	w.set(map[string]string{"a": "3", "b": "4"})
	m.Remount = true
	_, err = w.plugin.SetUp(t.Context(), m)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "3", "b": "4"}, w.seen(m.Dir()))
	data, err := os.ReadFile(filepath.Join(outside, "a"))
	require.NoError(t, err)
	assert.Equal(t, "precious", string(data))
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

// TestUpstream68211VersionInASubPathStays, issues 72699, 103836 and 127602, too: the file in a
// container's subPath still exists when the container is started again.
func TestUpstream68211VersionInASubPathStays(t *testing.T) {
	mounter := mounttest.Need(t)
	w := newWorld(t)
	w.set(map[string]string{"a": "1"})
	m := w.mount(volume("config", nil))
	_, err := w.plugin.SetUp(t.Context(), m)
	require.NoError(t, err)
	subpaths, err := subpath.New(subpath.Options{Mounter: mounter})
	require.NoError(t, err)
	host, err := subpaths.Prepare(t.Context(), subpath.Request{Place: m.Place, Volume: m.Dir(), SubPath: "a", Container: "c"})
	require.NoError(t, err)
	w.set(map[string]string{"a": "2"})
	m.Remount = true
	_, err = w.plugin.SetUp(t.Context(), m)
	require.NoError(t, err)
	info, _, err := mounter.At(host)
	require.NoError(t, err)
	assert.NotContains(t, info.Root, "deleted", "the bound file is not unlinked")
	data, err := os.ReadFile(host)
	require.NoError(t, err)
	assert.Equal(t, "1", string(data))

	require.NoError(t, subpaths.CleanSubpaths(t.Context(), m.Place))
	_, err = w.plugin.SetUp(t.Context(), m)
	require.NoError(t, err)
	versions, err := filepath.Glob(filepath.Join(m.Dir(), "..20*"))
	require.NoError(t, err)
	assert.Len(t, versions, 1, "let go, it is swept")
	require.NoError(t, w.plugin.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place}))
}

func TestNestedMountPoints(t *testing.T) {
	w := newWorld(t)
	w.set(map[string]string{"a": "1"})
	w.pod.Spec.Containers = []v1.Container{{VolumeMounts: []v1.VolumeMount{
		{Name: "config", MountPath: "/dir/nested"},
		{Name: "other", MountPath: "/dir/nested/x/y"},
		{Name: "third", MountPath: "/dir/nested/x/y/z"},
		{Name: "beside", MountPath: "/dir/nested-volume"},
	}}}
	m := w.mount(volume("config", nil))
	for range 2 {
		_, err := w.plugin.SetUp(t.Context(), m)
		require.NoError(t, err)
		assert.DirExists(t, filepath.Join(m.Dir(), "x/y"))
		assert.NoDirExists(t, filepath.Join(m.Dir(), "x/y/z"))
		assert.NoDirExists(t, filepath.Join(m.Dir(), "volume"))
		w.set(map[string]string{"a": "2"})
	}
	w.pod.Spec.Containers[0].VolumeMounts[1].MountPath = "../escape"
	_, err := w.plugin.SetUp(t.Context(), m)
	require.ErrorIs(t, err, volumemanager.ErrTerminal)
}

func TestGroupMayRead(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files to any group")
	}
	w := newWorld(t)
	w.set(map[string]string{"a": "1"})
	group, mode := int64(1234), int32(0o400)
	m := w.mount(volume("config", func(s *v1.ConfigMapVolumeSource) { s.DefaultMode = &mode }))
	m.FSGroup = &group
	_, err := w.plugin.SetUp(t.Context(), m)
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(m.Dir(), "a"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o440), info.Mode())
	assert.Contains(t, fmt.Sprintf("%+v", info.Sys()), "Gid:1234")
}

func TestForeignMountIsNotTornDown(t *testing.T) {
	mounttest.Need(t)
	w := newWorld(t)
	m := w.mount(volume("config", nil))
	precious := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(precious, "data"), nil, 0o600))
	mounttest.Mount(t, mount.Request{Source: precious, Target: m.Dir(), Options: []string{"bind"}})
	require.ErrorContains(t, w.plugin.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place}), "something else is mounted there")
	assert.FileExists(t, filepath.Join(precious, "data"))
}

func Example() {
	root, _ := os.MkdirTemp("", "root")
	defer os.RemoveAll(root)
	store, err := objects.NewStore(objects.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	store.SetConfigMap(&v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "config"},
		Data:       map[string]string{"greeting": "hello"},
	})
	plugin, err := configmap.New(configmap.Options{Source: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	spec := volumemanager.Spec{Volume: volume("config", nil)}
	mounted, err := plugin.SetUp(context.Background(), volumemanager.Mount{ // a volumemanager.Manager does this
		Place: volumemanager.Place{Root: root, PodUID: "uid", Plugin: configmap.Name, Inner: "config"},
		Spec:  spec,
		Pod:   &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "uid"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := os.ReadFile(filepath.Join(mounted.Path, "greeting"))
	fmt.Println(string(text), err)
	// Output: hello <nil>
}
