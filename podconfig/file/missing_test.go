// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig/file"
)

func TestFileMustBeMissingForTheDebounce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.write("a.yaml", pod("a", "i"))
		f.settle()
		f.remove("a.yaml")
		r := f.scan()
		assert.False(t, r.Changed)
		assert.Equal(t, time.Now().Add(file.DefaultDebounce), r.Recheck)
		time.Sleep(file.DefaultDebounce - 1)
		assert.False(t, f.scan().Changed)
		time.Sleep(time.Nanosecond)
		r = f.scan()
		assert.True(t, r.Changed)
		assert.Empty(t, r.Pods)
		assert.Zero(t, r.Recheck)
	})
}

func TestFileThatComesBackInTimeWasNeverMissing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.write("a.yaml", pod("a", "i"))
		f.settle()
		for range 5 {
			f.remove("a.yaml")
			assert.False(t, f.scan().Changed)
			time.Sleep(file.DefaultDebounce - 1)
			f.write("a.yaml", pod("a", "i"))
			r := f.scan()
			assert.False(t, r.Changed)
			assert.Zero(t, r.Recheck)
			time.Sleep(time.Second)
		}
	})
}

// For a missing path the kubelet sends an empty snapshot and logs an error every second and every
// period.
func TestMissingPathIsEmptyAndToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.remove("")
		r := f.scan()
		assert.False(t, r.Ready, "it may be on its way")
		assert.Empty(t, f.settle())
		assert.True(t, f.source != nil && f.scan().Ready)
		assert.Equal(t, []string{".: there is no such file or folder"}, f.told())
		time.Sleep(time.Hour)
		f.settle()
		assert.Empty(t, f.told())
		require.NoError(t, os.Mkdir(f.dir, 0o755))
		f.write("a.yaml", pod("a", "i"))
		assert.Equal(t, []string{"a=i"}, f.settle())
		assert.Equal(t, []string{". ok"}, f.told())
	})
}

func TestFolderThatIsReplacedKeepsItsPods(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.write("a.yaml", pod("a", "i"))
		f.write("b.yaml", pod("b", "i"))
		before := f.scan().Pods
		f.remove("")
		for range 9 {
			r := f.scan()
			assert.Equal(t, uids(before), uids(r.Pods))
			assert.NotZero(t, r.Recheck)
			time.Sleep(file.DefaultDebounce)
		}
		require.NoError(t, os.Mkdir(f.dir, 0o755))
		f.write("a.yaml", pod("a", "i"))
		f.write("b.yaml", pod("b", "i"))
		assert.Equal(t, uids(before), uids(f.scan().Pods))
		assert.Empty(t, f.told())

		f.remove("")
		f.scan()
		time.Sleep(10 * file.DefaultDebounce)
		assert.Empty(t, f.scan().Pods, "gone for good")
		assert.Equal(t, []string{".: there is no such file or folder"}, f.told())
	})
}

// After an empty or missing path, the kubelet's next event brings back the former pods.
func TestUpstreamGhostsComeBackAfterEmptyFolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.write("a.yaml", pod("a", "i"))
		f.settle()
		f.remove("a.yaml")
		f.scan()
		time.Sleep(time.Second)
		assert.Empty(t, f.settle())
		f.write("c.yaml", pod("c", "i"))
		assert.Equal(t, []string{"c=i"}, f.settle())
	})
}

func TestSingleFile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.write("neighbour.yaml", pod("x", "i"))
		f.write(".single", pod("a", "i"))
		dir := f.dir
		f.source = f.newSource(func(c *file.Config) { c.Path = f.path(".single") })
		assert.Equal(t, []string{"a=i"}, f.settle(), "a name that begins with a dot is fine if it is given")
		f.write(".single", "a: [")
		assert.Equal(t, []string{"a=i"}, f.settle())
		assert.Len(t, f.told(), 1)
		f.write("new", pod("a", "j"))
		f.rename("new", ".single")
		assert.Equal(t, []string{"a=j"}, f.settle())
		f.told()

		f.remove(".single")
		assert.Equal(t, []string{"a=j"}, images(f.scan().Pods))
		time.Sleep(file.DefaultDebounce)
		assert.Empty(t, images(f.scan().Pods), "as quick as in a folder")
		assert.Equal(t, []string{".single: there is no such file or folder"}, f.told())

		f.write(".single", pod("a", "k"))
		assert.Equal(t, []string{"a=k"}, f.settle())
		require.NoError(t, os.Rename(dir, dir+"2"))
		f.scan()
		time.Sleep(file.DefaultDebounce)
		assert.Equal(t, []string{"a=k"}, images(f.scan().Pods), "its folder is being replaced, perhaps")
		assert.Empty(t, f.settle())
	})
}

func TestPathMayBeLinkAndChangeItsKind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := t.TempDir()
		for _, release := range []string{"1", "2"} {
			require.NoError(t, os.Mkdir(filepath.Join(base, release), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(base, release, "a.yaml"), []byte(pod("a", "r"+release)), 0o644))
		}
		f := &fixture{T: t, dir: filepath.Join(base, "current")}
		require.NoError(t, os.Symlink("1", f.dir))
		f.source = f.newSource()
		assert.Equal(t, []string{"a=r1"}, f.settle())
		require.NoError(t, os.Remove(f.dir))
		require.NoError(t, os.Symlink("2", f.dir))
		assert.Equal(t, []string{"a=r2"}, images(f.scan().Pods))

		require.NoError(t, os.Remove(f.dir))
		require.NoError(t, syscall.Mkfifo(f.dir, 0o644))
		assert.Equal(t, []string{"a=r2"}, f.settle(), "nobody knows what that means")
		assert.Equal(t, []string{".: not a regular file but a named pipe"}, f.told())
	})
}
