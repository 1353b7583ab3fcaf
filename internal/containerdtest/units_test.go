// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseVersion(t *testing.T) {
	tests := []struct {
		line, text string
		events     bool
	}{
		{"containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3\n", "1.6.20~ds1", false},
		{"containerd github.com/containerd/containerd v1.7.27 05044ec0a9a75232cad458027ca83437aae3f4da\n", "1.7.27", false},
		{"containerd github.com/containerd/containerd/v2 v2.4.2 \n", "2.4.2", true},
		{"containerd github.com/containerd/containerd/v2 2.0.0-rc.1", "2.0.0-rc.1", true},
	}
	for _, tc := range tests {
		v, err := parseVersion(tc.line)
		require.NoError(t, err, tc.line)
		assert.Equal(t, tc.text, v.text)
		assert.Equal(t, tc.events, v.hasEvents(), tc.line)
	}
	for _, line := range []string{"", "containerd", "containerd x y", "containerd x v2"} {
		_, err := parseVersion(line)
		assert.Error(t, err, "%q", line)
	}
}

// TestConfig checks the places where the two formats differ.
func TestConfig(t *testing.T) {
	l := newLayout("/tmp/x y", 7)
	l.CNIDir = "/cni"
	old, err := configFor(l, version{major: 1, minor: 6})
	require.NoError(t, err)
	assert.Contains(t, string(old), "version = 2\n")
	assert.Contains(t, string(old), `sandbox_image = "localhost/pause:1"`)
	assert.Contains(t, string(old), `bin_dir = "/cni"`)
	assert.Contains(t, string(old), `root = "/tmp/x y/root"`)
	current, err := configFor(l, version{major: 2})
	require.NoError(t, err)
	assert.Contains(t, string(current), "version = 3\n")
	assert.Contains(t, string(current), `sandbox = "localhost/pause:1"`)
	assert.Contains(t, string(current), `bin_dirs = ["/cni"]`)

	network, err := render(networkConfig, l)
	require.NoError(t, err)
	assert.True(t, json.Valid(network), "%s", network)
	assert.Contains(t, string(network), `"10.88.56.0/21"`)
	assert.LessOrEqual(t, len(newLayout("", maxSlots-1).Network), 15)
}

// TestArchive reads an image back.
func TestArchive(t *testing.T) {
	busybox := filepath.Join(t.TempDir(), "busybox")
	require.NoError(t, os.WriteFile(busybox, []byte("#!/bin/sh\necho busybox; echo cat; echo ls\n"), 0o700))
	image := Image{Name: "localhost/x:1", Cmd: []string{"ls"}, Env: []string{"A=b"}, Files: map[string]string{"/a/../srv/f": "text"}}
	var first, second bytes.Buffer
	require.NoError(t, writeArchive(&first, busybox, image))
	require.NoError(t, writeArchive(&second, busybox, image))
	assert.Equal(t, first.Bytes(), second.Bytes(), "the same image has the same ID")

	files := untar(t, first.Bytes())
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	require.NoError(t, json.Unmarshal(files["manifest.json"], &manifest))
	require.Len(t, manifest, 1)
	assert.Equal(t, []string{"localhost/x:1"}, manifest[0].RepoTags)
	layer := files[manifest[0].Layers[0]]
	config := string(files[manifest[0].Config])
	assert.Contains(t, config, `"diff_ids":["sha256:`+digest(layer)+`"]`)
	assert.Contains(t, config, `"config":{"Cmd":["ls"],"Env":["PATH=/bin","A=b"]}`)
	root := untar(t, layer)
	assert.Equal(t, "text", string(root["srv/f"]))
	assert.Contains(t, root, "bin/cat")
	assert.Contains(t, string(root["bin/busybox"]), "echo")

	assert.Error(t, writeArchive(&first, busybox+"x", image))
}

// TestArchiveOfPrograms reads an image with several names and with files of this machine back.
func TestArchiveOfPrograms(t *testing.T) {
	dir := t.TempDir()
	busybox, program := filepath.Join(dir, "busybox"), filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(busybox, []byte("#!/bin/sh\necho busybox; echo cat; echo ls; echo sh\n"), 0o700))
	require.NoError(t, os.WriteFile(program, []byte("text"), 0o600))
	image := Image{
		Name: "localhost/x:1", Aliases: []string{"localhost/x:2"},
		Copies: map[string]Copy{"/srv/program": {From: program, Mode: 0o6755}, "/bin/sh": {From: program}},
		Links:  map[string]string{"/srv/link": "/bin/cat", "/bin/ls": "cat"}, Dirs: []string{"/uploads"},
	}
	var archive bytes.Buffer
	require.NoError(t, writeArchive(&archive, busybox, image))
	files := untar(t, archive.Bytes())
	assert.Contains(t, string(files["manifest.json"]), `"RepoTags":["localhost/x:1","localhost/x:2"]`)

	layer, err := image.layer(busybox)
	require.NoError(t, err)
	seen := map[string]tar.Header{}
	for in := tar.NewReader(bytes.NewReader(layer)); ; {
		header, err := in.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		assert.NotContains(t, seen, header.Name, "a path stands once")
		seen[header.Name] = *header
	}
	assert.EqualValues(t, 0o6755, seen["srv/program"].Mode)
	assert.EqualValues(t, 0o755, seen["bin/sh"].Mode)
	assert.EqualValues(t, tar.TypeReg, seen["bin/sh"].Typeflag, "a copy replaces the command of busybox")
	assert.Equal(t, "cat", seen["bin/ls"].Linkname)
	assert.Equal(t, "busybox", seen["bin/cat"].Linkname)
	assert.EqualValues(t, tar.TypeDir, seen["uploads/"].Typeflag)

	image.Copies["/none"] = Copy{From: filepath.Join(dir, "none")}
	assert.ErrorIs(t, writeArchive(&archive, busybox, image), os.ErrNotExist)
}

// TestHandlers checks that each format of the configuration has the further runtime handlers.
func TestHandlers(t *testing.T) {
	l := newLayout("/dir", 1)
	l.Handlers = []string{"other"}
	for _, major := range []int{1, 2} {
		config, err := configFor(l, version{major: major})
		require.NoError(t, err)
		assert.Contains(t, string(config), ".containerd.runtimes.other]\n")
		assert.Equal(t, 2, strings.Count(string(config), `Root = "/dir/runc"`), "the handlers share a folder")
	}
}

func untar(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for in := tar.NewReader(bytes.NewReader(text)); ; {
		header, err := in.Next()
		if err == io.EOF {
			return files
		}
		require.NoError(t, err)
		files[header.Name], err = io.ReadAll(in)
		require.NoError(t, err)
	}
}

// recorder is a testing.TB that only records its end.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (*recorder) Helper()                          {}
func (r *recorder) Skip(args ...any)               { r.skipped = fmt.Sprint(args...) }
func (r *recorder) Fatalf(format string, a ...any) { r.failed = fmt.Sprintf(format, a...) }

// TestFailOrSkip checks that CI cannot pass without containerd.
func TestFailOrSkip(t *testing.T) {
	unavailable := fmt.Errorf("%w: runc not found", ErrUnavailable)
	tests := []struct {
		name, require   string
		err             error
		skipped, failed string
	}{
		{"started", "1", nil, "", ""},
		{"on a developer's machine", "", unavailable, "no containerd for tests: runc not found", ""},
		{"in CI", "1", unavailable, "", "start containerd: no containerd for tests: runc not found"},
		{"broken", "", errors.New("it crashed"), "", "start containerd: it crashed"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv(RequireVariable, tc.require)
			r := &recorder{TB: t}
			failOrSkip(r, tc.err)
			assert.Equal(t, tc.skipped, r.skipped)
			assert.Equal(t, tc.failed, r.failed)
		})
	}
}

// TestMissingBinaries checks that one message names every missing program.
func TestMissingBinaries(t *testing.T) {
	t.Setenv("PATH", "")
	_, err := findBinaries(t.TempDir())
	require.ErrorIs(t, err, ErrUnavailable)
	if os.Geteuid() == 0 && strings.Contains(err.Error(), "not found") {
		assert.Contains(t, err.Error(), "containerd, ctr, busybox, containerd-shim-runc-v2")
	}
}
