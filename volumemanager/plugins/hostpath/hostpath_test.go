// SPDX-License-Identifier: Apache-2.0

package hostpath_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/hostpath"
)

func mountOf(path string, kind *v1.HostPathType) volumemanager.Mount {
	return volumemanager.Mount{Pod: &v1.Pod{}, Spec: volumemanager.Spec{Volume: &v1.Volume{
		Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: kind}},
	}}}
}

func plugin(tb testing.TB) *hostpath.Plugin {
	tb.Helper()
	p, err := hostpath.New(hostpath.Options{})
	require.NoError(tb, err)
	return p
}

// TestTypes checks every type against every kind of file.
func TestTypes(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.Mkdir(at("dir"), 0o755))
	require.NoError(t, os.WriteFile(at("file"), nil, 0o600))
	short, err := os.MkdirTemp("", "hp")
	require.NoError(t, err)
	defer os.RemoveAll(short)
	socket := filepath.Join(short, "s")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	defer listener.Close()
	require.NoError(t, os.Symlink(at("dir"), at("dirlink")))
	require.NoError(t, os.Symlink(at("nowhere"), at("dangling")))
	things := map[string]string{
		"directory": at("dir"), "link to a directory": at("dirlink"), "file": at("file"), "socket": socket, "character": "/dev/null",
		"missing": at("missing"), "dangling": at("dangling"),
	}
	if info, err := os.Stat("/dev/loop0"); err == nil && info.Mode()&os.ModeDevice != 0 {
		things["block"] = "/dev/loop0"
	}
	fits := map[v1.HostPathType][]string{
		v1.HostPathUnset:     {"directory", "link to a directory", "file", "socket", "character", "block", "missing", "dangling"},
		v1.HostPathDirectory: {"directory", "link to a directory"},
		v1.HostPathFile:      {"file"},
		v1.HostPathSocket:    {"socket"},
		v1.HostPathCharDev:   {"character"},
		v1.HostPathBlockDev:  {"block"},
	}
	p := plugin(t)
	for kind, fitting := range fits {
		for thing, path := range things {
			m, err := p.SetUp(t.Context(), mountOf(path, &kind))
			if slices.Contains(fitting, thing) {
				require.NoError(t, err, "%s as %q", thing, kind)
				assert.Equal(t, volumemanager.Mounted{Path: path}, m)
				continue
			}
			require.ErrorIs(t, err, hostpath.ErrType, "%s as %q", thing, kind)
			require.ErrorContains(t, err, fmt.Sprintf(`volume "host": hostPath type check failed: %s is not a `, path))
		}
	}
	odd := v1.HostPathType("Teapot")
	_, err = p.SetUp(t.Context(), mountOf(dir, &odd))
	require.ErrorContains(t, err, `"Teapot" is an invalid volume type`)
	m, err := p.SetUp(t.Context(), mountOf(dir, nil))
	require.NoError(t, err)
	assert.Equal(t, dir, m.Path)
}

func TestOrCreate(t *testing.T) {
	dir := t.TempDir()
	p := plugin(t)
	folder, file := v1.HostPathDirectoryOrCreate, v1.HostPathFileOrCreate
	for range 2 {
		_, err := p.SetUp(t.Context(), mountOf(filepath.Join(dir, "a/b/c"), &folder))
		require.NoError(t, err)
		_, err = p.SetUp(t.Context(), mountOf(filepath.Join(dir, "a/f"), &file))
		require.NoError(t, err)
	}
	info, err := os.Stat(filepath.Join(dir, "a/b/c"))
	require.NoError(t, err)
	assert.Equal(t, os.ModeDir|0o755, info.Mode())
	info, err = os.Stat(filepath.Join(dir, "a/f"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), info.Mode())

	_, err = p.SetUp(t.Context(), mountOf(filepath.Join(dir, "none/f"), &file))
	require.ErrorContains(t, err, "no such file or directory", "the parent of a file must be there")
	_, err = p.SetUp(t.Context(), mountOf(filepath.Join(dir, "a/f"), &folder))
	require.ErrorContains(t, err, "is not a directory")
	_, err = p.SetUp(t.Context(), mountOf(filepath.Join(dir, "a/b"), &file))
	require.ErrorContains(t, err, "is not a file")
	require.NoError(t, os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "dangling")))
	_, err = p.SetUp(t.Context(), mountOf(filepath.Join(dir, "dangling"), &file))
	require.Error(t, err)
	assert.NoFileExists(t, filepath.Join(dir, "nowhere"), "nothing is made where a link leads")
}

func TestHostilePaths(t *testing.T) {
	for _, path := range []string{"/a/../etc", "..", "relative", "", "/a\x00b", "/.."} {
		_, err := plugin(t).SetUp(t.Context(), mountOf(path, nil))
		require.ErrorIs(t, err, volumemanager.ErrTerminal, path)
	}
	_, err := plugin(t).SetUp(t.Context(), mountOf("/a..b/..c", nil))
	require.NoError(t, err)
}

func TestPersistentVolume(t *testing.T) {
	p := plugin(t)
	spec := volumemanager.Spec{ReadOnly: true, PV: &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{
		PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/data"}},
	}}}
	assert.True(t, p.Supports(spec))
	m, err := p.SetUp(t.Context(), volumemanager.Mount{Spec: spec, Pod: &v1.Pod{}})
	require.NoError(t, err)
	assert.Equal(t, volumemanager.Mounted{Path: "/data", ReadOnly: true}, m)
	_, err = p.SetUp(t.Context(), volumemanager.Mount{Spec: volumemanager.Spec{Volume: &v1.Volume{Name: "x"}}, Pod: &v1.Pod{}})
	require.ErrorIs(t, err, volumemanager.ErrTerminal)
}

func Example() {
	plugin, err := hostpath.New(hostpath.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	kind := v1.HostPathFile
	_, err = plugin.SetUp(context.Background(), mountOf("/dev/null", &kind))
	fmt.Println(err)
	// Output: volume "host": hostPath type check failed: /dev/null is not a file
}
