// SPDX-License-Identifier: Apache-2.0

package subpath_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
	"github.com/keelson-dev/keelson/volumemanager/plugins/subpath"
)

// world is a volume of a pod, and a secret of the node beside the volume.
type world struct {
	*subpath.Subpaths
	place   volumemanager.Place
	volume  string
	outside string
}

func newWorld(t *testing.T, mounter mount.Mounter) world {
	t.Helper()
	w := world{outside: t.TempDir(), place: volumemanager.Place{
		Root: mounttest.Dir(t), PodUID: "uid", Plugin: "kubernetes.io/empty-dir", Inner: "data",
	}}
	w.volume = w.place.Dir()
	require.NoError(t, os.MkdirAll(w.volume, 0o755))
	require.NoError(t, os.Chmod(w.volume, 0o777|os.ModeSetgid))
	require.NoError(t, os.WriteFile(filepath.Join(w.outside, "shadow"), []byte("secret of the node"), 0o600))
	var err error
	w.Subpaths, err = subpath.New(subpath.Options{Mounter: mounter})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.CleanSubpaths(context.Background(), w.place) })
	return w
}

func (w world) request(sub string, index int) subpath.Request {
	return subpath.Request{Place: w.place, Volume: w.volume, SubPath: sub, Container: "main", Index: index}
}

func (w world) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(w.volume, name)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(w.volume, name), []byte(text), 0o644))
}

// both runs a test with and without mounts.
func both(t *testing.T, test func(t *testing.T, mounter mount.Mounter)) {
	t.Run("mounts", func(t *testing.T) { test(t, mounttest.Need(t)) })
	t.Run("links", func(t *testing.T) { test(t, mount.None{}) })
}

func TestPrepareAndClean(t *testing.T) {
	both(t, func(t *testing.T, mounter mount.Mounter) {
		w := newWorld(t, mounter)
		w.write(t, "dir/file", "text")
		for range 2 {
			host, err := w.Prepare(t.Context(), w.request("dir", 0))
			require.NoError(t, err)
			data, err := os.ReadFile(filepath.Join(host, "file"))
			require.NoError(t, err)
			assert.Equal(t, "text", string(data))
			host, err = w.Prepare(t.Context(), w.request("./dir//file", 1))
			require.NoError(t, err)
			data, err = os.ReadFile(host)
			require.NoError(t, err)
			assert.Equal(t, "text", string(data))
		}
		for range 2 {
			require.NoError(t, w.CleanSubpaths(t.Context(), w.place))
			assert.NoDirExists(t, filepath.Join(w.place.PodDir(), "volume-subpaths"))
		}
		assert.FileExists(t, filepath.Join(w.volume, "dir/file"))
	})
}

func TestMissingPartIsMadeWithTheVolumesMode(t *testing.T) {
	both(t, func(t *testing.T, mounter mount.Mounter) {
		w := newWorld(t, mounter)
		_, err := w.Prepare(t.Context(), w.request("a/b/c", 0))
		require.NoError(t, err)
		for _, name := range []string{"a", "a/b", "a/b/c"} {
			info, err := os.Stat(filepath.Join(w.volume, name))
			require.NoError(t, err)
			assert.Equal(t, os.ModeDir|os.ModeSetgid|0o777, info.Mode(), name)
		}
	})
}

func TestHostilePathsAreRefused(t *testing.T) {
	both(t, func(t *testing.T, mounter mount.Mounter) {
		w := newWorld(t, mounter)
		require.NoError(t, os.Symlink(w.outside, filepath.Join(w.volume, "abs")))
		require.NoError(t, os.Symlink("../../../../../../../../../.."+w.outside, filepath.Join(w.volume, "rel")))
		require.NoError(t, os.Symlink("rel", filepath.Join(w.volume, "chain")))
		require.NoError(t, os.Symlink("loop", filepath.Join(w.volume, "loop")))
		require.NoError(t, os.Symlink("/proc/self/root", filepath.Join(w.volume, "magic")))
		require.NoError(t, os.Symlink("missing/further", filepath.Join(w.volume, "dangling")))
		for _, sub := range []string{
			"..", "../x", "a/../../x", "/etc", "a\x00b", strings.Repeat("a/", 3000), strings.Repeat("k", 1<<20),
			"abs", "abs/shadow", "rel/shadow", "chain/shadow", "loop", "loop/x", "magic/etc", "abs/new/folder", "rel/new", "dangling/x",
		} {
			host, err := w.Prepare(t.Context(), w.request(sub, 0))
			require.Error(t, err, "%.40q became %s", sub, host)
			assert.Contains(t, err.Error(), `volume "data": subPath`)
			assert.Less(t, len(err.Error()), 400)
			assert.NotContains(t, err.Error(), w.outside, "errors show no path of the node")
		}
		assert.NoDirExists(t, filepath.Join(w.outside, "new"))
		for _, edit := range []func(*subpath.Request){
			func(r *subpath.Request) { r.Container = "../main" },
			func(r *subpath.Request) { r.Container = "" },
			func(r *subpath.Request) { r.Index = -1 },
			func(r *subpath.Request) { r.Place.Inner = "../x" },
		} {
			r := w.request("a", 0)
			edit(&r)
			_, err := w.Prepare(t.Context(), r)
			require.Error(t, err)
		}
	})
}

func TestLinksInsideAreFollowed(t *testing.T) {
	both(t, func(t *testing.T, mounter mount.Mounter) {
		w := newWorld(t, mounter)
		w.write(t, "..v1/key", "1")
		require.NoError(t, os.Symlink("..v1", filepath.Join(w.volume, "..data")))
		require.NoError(t, os.Symlink("..data/key", filepath.Join(w.volume, "key")))
		host, err := w.Prepare(t.Context(), w.request("key", 0))
		require.NoError(t, err)
		data, err := os.ReadFile(host)
		require.NoError(t, err)
		assert.Equal(t, "1", string(data))
	})
}

// TestUpstream68211ReplacedFileIsBoundAnew: after an update of the volume, a restarted container
// gets the new file, and its start does not fail because the old file is gone.
func TestUpstream68211ReplacedFileIsBoundAnew(t *testing.T) {
	both(t, func(t *testing.T, mounter mount.Mounter) {
		w := newWorld(t, mounter)
		for i := range 3 {
			w.write(t, "new", fmt.Sprint(i))
			require.NoError(t, os.Rename(filepath.Join(w.volume, "new"), filepath.Join(w.volume, "file")))
			host, err := w.Prepare(t.Context(), w.request("file", 0))
			require.NoError(t, err)
			data, err := os.ReadFile(host)
			require.NoError(t, err)
			assert.Equal(t, fmt.Sprint(i), string(data))
		}
		require.NoError(t, os.Rename(filepath.Join(w.volume, "file"), filepath.Join(w.volume, "old")))
		w.write(t, "file", "beside the old one")
		host, err := w.Prepare(t.Context(), w.request("file", 0))
		require.NoError(t, err)
		data, err := os.ReadFile(host)
		require.NoError(t, err)
		assert.Equal(t, "beside the old one", string(data))
		require.NoError(t, os.Remove(filepath.Join(w.volume, "file")))
		require.NoError(t, os.Mkdir(filepath.Join(w.volume, "file"), 0o755))
		host, err = w.Prepare(t.Context(), w.request("file", 0))
		require.NoError(t, err, "now a folder")
		assert.DirExists(t, host)
	})
}

// TestSwappedLinksNeverEscape: another container repeatedly swaps a folder for a link to the node's
// files, as in CVE-2017-1002101 and CVE-2021-25741.
func TestSwappedLinksNeverEscape(t *testing.T) {
	w := newWorld(t, mounttest.Need(t))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		swapped, other := filepath.Join(w.volume, "swapped"), filepath.Join(w.volume, "other")
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Mkdir(swapped, 0o755)
			_ = os.WriteFile(filepath.Join(swapped, "shadow"), []byte("of the container"), 0o600)
			_ = os.Rename(swapped, other)
			_ = os.Symlink(w.outside, swapped)
			_ = os.Remove(swapped)
			_ = os.Rename(other, swapped)
		}
	})
	defer wg.Wait()
	defer close(stop)
	bound, refused := 0, 0
	for range 1000 {
		host, err := w.Prepare(t.Context(), w.request("swapped/shadow", 0))
		if err != nil {
			refused++
			continue
		}
		bound++
		if data, err := os.ReadFile(host); err == nil {
			require.NotEqual(t, "secret of the node", string(data))
		}
	}
	t.Logf("%d bound, %d refused", bound, refused)
}

func TestCleanNeverRemovesContent(t *testing.T) {
	w := newWorld(t, mount.None{})
	foreign := filepath.Join(w.place.SubpathsDir(), "main", "0", "data")
	require.NoError(t, os.MkdirAll(filepath.Dir(foreign), 0o755))
	require.NoError(t, os.WriteFile(foreign, nil, 0o600))
	require.Error(t, w.CleanSubpaths(t.Context(), w.place), "a folder that is not empty")
	assert.FileExists(t, foreign)
}

func ExampleSubpaths_Prepare() {
	volume, _ := os.MkdirTemp("", "volume")
	defer os.RemoveAll(volume)
	subpaths, err := subpath.New(subpath.Options{Mounter: mount.None{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	place := volumemanager.Place{Root: volume, PodUID: "uid", Plugin: "kubernetes.io/empty-dir", Inner: "data"}
	for _, sub := range []string{"logs/app", "../etc"} {
		host, err := subpaths.Prepare(context.Background(), subpath.Request{
			Place: place, Volume: volume, SubPath: sub, Container: "main", Index: 0,
		})
		fmt.Println(strings.TrimPrefix(host, volume), err)
	}
	// Output:
	// /logs/app <nil>
	//  volume "data": subPath "../etc": is not a path inside of the volume
}
