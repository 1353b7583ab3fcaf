// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/internal/tree/treetest"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

func nobody(types.UID) bool { return false }

// files creates files below the root; a name that ends in / is a folder.
func (s *stage) files(names ...string) {
	for _, name := range names {
		path := filepath.Join(s.root, name)
		if name[len(name)-1] == '/' {
			require.NoError(s, os.MkdirAll(path, 0o750))
			continue
		}
		require.NoError(s, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(s, os.WriteFile(path, []byte("data"), 0o600))
	}
}

func noMounts(o *volumemanager.Options) {
	o.Mounts = volumemanager.MountTableFunc(func() ([]string, error) { return []string{"/", "/proc"}, nil })
}

func TestCleanupOrphanRemovesOneFolder(t *testing.T) {
	play(t, volumetest.Options{Folders: true}, noMounts, func(s *stage) {
		for _, uid := range []types.UID{"gone", "other"} {
			s.pods.Set(uid, volumetest.Gone)
			s.files("pods/" + string(uid) + "/etc-hosts")
		}
		s.files("pods/alive/etc-hosts", "plugins/file") // are still there in the end
		for _, uid := range []types.UID{"", ".", "..", "../plugins", "gone/..", "alive/etc-hosts"} {
			s.pods.Set(uid, volumetest.Gone)
			require.NoError(s, s.manager.CleanupOrphan(uid), "no folder has the name %q", uid)
		}
		s.pods.Set("none", volumetest.Gone)
		require.NoError(s, s.manager.CleanupOrphan("none"))
		require.NoError(s, s.manager.CleanupOrphan("alive"))
		require.NoError(s, s.manager.CleanupOrphan("gone"))
		assert.NoDirExists(s, s.root+"/pods/gone")
		for _, file := range []string{"pods/other/etc-hosts", "pods/alive/etc-hosts", "plugins/file"} {
			assert.FileExists(s, filepath.Join(s.root, file))
		}
	})
}

func TestCleanupOrphansRemovesThePodsFolder(t *testing.T) {
	play(t, volumetest.Options{Folders: true}, noMounts, func(s *stage) {
		s.pods.Set("gone", volumetest.Gone)
		s.pods.Set("kept", volumetest.Gone)
		for _, uid := range []string{"gone", "kept", "alive"} {
			s.files("pods/"+uid+"/etc-hosts", "pods/"+uid+"/containers/main/1234", "pods/"+uid+"/volumes/x.com~y/",
				"pods/"+uid+"/volume-subpaths/v/main/0/", "pods/"+uid+"/plugins/x.com~y/v/ready")
		}
		require.NoError(s, os.Symlink("/etc", filepath.Join(s.root, "pods/gone/link")))
		s.files("pods/a-file")
		require.NoError(s, s.manager.CleanupOrphans(s.Context(), func(uid types.UID) bool { return uid == "kept" }))
		assert.NoDirExists(s, s.root+"/pods/gone")
		assert.FileExists(s, s.root+"/pods/kept/etc-hosts")
		assert.FileExists(s, s.root+"/pods/alive/etc-hosts")
		assert.FileExists(s, s.root+"/pods/a-file")
		assert.DirExists(s, "/etc")
	})
}

// TestCleanupOfDeepTree: a container has nested folders in the folder of its pod, deeper than the
// maximum length of a path.
func TestCleanupOfDeepTree(t *testing.T) {
	for _, depth := range treetest.Depths[:1] {
		t.Run(strconv.Itoa(depth), func(t *testing.T) {
			play(t, volumetest.Options{}, noMounts, func(s *stage) {
				s.pods.Set("a", volumetest.Gone)
				s.files("pods/a/containers/")
				treetest.Deep(t, filepath.Join(s.root, "pods/a/containers"), depth)
				restore := treetest.Scarce(t, 2*tree.MaxDescriptors)
				defer restore()
				require.NoError(s, s.manager.CleanupOrphans(s.Context(), nobody))
				restore()
				assert.NoDirExists(s, filepath.Join(s.root, "pods/a"))
			})
		})
	}
}

// Issue 60987: a volume in the folder is torn down first, with as many retries as necessary.
func TestUpstream60987OrphanedVolumeIsTornDownFirst(t *testing.T) {
	options := volumetest.Options{Folders: true, Behave: failing(volumetest.OpTearDown, 2, errors.New("busy"))}
	play(t, options, noMounts, func(s *stage) {
		s.pods.Set("a", volumetest.Gone)
		s.files("pods/a/volumes/example.com~fake/v/data")
		require.NoError(s, s.manager.CleanupOrphans(s.Context(), nobody))
		synctest.Wait()
		require.NoError(s, s.manager.CleanupOrphans(s.Context(), nobody), "it is under way")
		assert.DirExists(s, s.root+"/pods/a")
		require.NoError(s, s.manager.WaitForUnmount(s.Context(), "a"))
		require.NoError(s, s.manager.CleanupOrphans(s.Context(), nobody))
		assert.NoDirExists(s, s.root+"/pods/a")
	})
}

// Issues 7317, 37698, 72257: the recursive removal of a pod's folder deletes the data in mounts
// below the folder.
func TestUpstream7317CleanupNeverRemovesData(t *testing.T) {
	mounted := ""
	table := func(o *volumemanager.Options) {
		o.Mounts = volumemanager.MountTableFunc(func() ([]string, error) { return []string{"/", mounted}, nil })
	}
	tests := []struct{ name, file, mount, want string }{
		{"data in a volume of an unknown plugin", "pods/a/volumes/x.com~y/v/data", "", "volumes are left at a/volumes/x.com~y/v"},
		{"a mount beside the volumes", "pods/a/plugins/x.com~y/v/data", "pods/a/plugins/x.com~y/v", "something is mounted at"},
		{"the folder is a mount", "pods/a/data", "pods/a", "something is mounted at"},
		{"data in a subpath", "pods/a/volume-subpaths/v/main/0", "", "volumes are left at a/volume-subpaths/v/main/0"},
		{"deep in a subpath", "pods/a/volume-subpaths/v/main/0/data", "", "volumes are left at"},
		{"a device", "pods/a/volumeDevices/x.com~y/v", "", "volumes are left at a/volumeDevices/x.com~y/v"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			play(t, volumetest.Options{}, table, func(s *stage) {
				s.pods.Set("a", volumetest.Gone)
				s.files(tc.file, "pods/a/etc-hosts")
				mounted = filepath.Join(s.root, tc.mount)
				if tc.mount == "" {
					mounted = "/elsewhere"
				}
				for range 2 {
					require.ErrorContains(s, s.manager.CleanupOrphans(s.Context(), nobody), tc.want)
					assert.FileExists(s, filepath.Join(s.root, tc.file))
					assert.FileExists(s, filepath.Join(s.root, "pods/a/etc-hosts"))
				}
			})
		})
	}
}

func TestCleanupWithoutMountTableRemovesNoFiles(t *testing.T) {
	play(t, volumetest.Options{}, nil, func(s *stage) {
		s.pods.Set("a", volumetest.Gone)
		s.pods.Set("b", volumetest.Gone)
		s.files("pods/a/etc-hosts", "pods/a/plugins/x.com~y/v/", "pods/b/volumes/x.com~y/", "pods/b/containers/main/")
		require.ErrorContains(s, s.manager.CleanupOrphans(s.Context(), nobody), "cannot remove a/etc-hosts")
		assert.FileExists(s, s.root+"/pods/a/etc-hosts")
		assert.NoDirExists(s, s.root+"/pods/a/plugins")
		assert.NoDirExists(s, s.root+"/pods/b")
	})
}

func TestCleanupStopsWithoutTheMountTable(t *testing.T) {
	unreadable := func(o *volumemanager.Options) {
		o.Mounts = volumemanager.MountTableFunc(func() ([]string, error) { return nil, errors.New("no /proc") })
	}
	play(t, volumetest.Options{}, unreadable, func(s *stage) {
		s.pods.Set("a", volumetest.Gone)
		s.files("pods/a/volumes/")
		require.ErrorContains(s, s.manager.CleanupOrphans(s.Context(), nobody), "no /proc")
		assert.DirExists(s, s.root+"/pods/a/volumes")
	})
}

func TestCleanupOfARootThatIsALink(t *testing.T) {
	real, link := memoryDir(t), filepath.Join(memoryDir(t), "link")
	require.NoError(t, os.Symlink(real, link))
	pods := &volumetest.Pods{}
	pods.Set("a", volumetest.Gone)
	m, err := volumemanager.New(volumemanager.Options{
		Pods: pods, Root: link,
		Mounts: volumemanager.MountTableFunc(func() ([]string, error) { return []string{real + "/pods/a/containers"}, nil }),
	})
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(link+"/pods/a/containers", 0o750))
	require.ErrorContains(t, m.CleanupOrphans(t.Context(), nobody), "something is mounted at")
	require.NoError(t, os.RemoveAll(filepath.Join(real, "pods/a")))
	require.NoError(t, os.Symlink("/etc", filepath.Join(real, "pods/a")))
	require.ErrorContains(t, m.CleanupOrphans(t.Context(), nobody), "path escapes from parent")
	require.DirExists(t, "/etc")
}
