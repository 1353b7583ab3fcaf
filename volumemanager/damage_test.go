// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// damages are the possible damages of a record by a disk, a person or another program.
var damages = map[string]func(record string) error{
	"grown to gigabytes":            func(r string) error { return os.Truncate(r, 3<<30) },
	"empty":                         func(r string) error { return os.Truncate(r, 0) },
	"missing":                       os.Remove,
	"a full folder in its place":    func(r string) error { return inPlace(r, func() error { return os.MkdirAll(r+"/a/b", 0o700) }) },
	"a link in its place":           func(r string) error { return inPlace(r, func() error { return os.Symlink("/nonexistent", r) }) },
	"a pipe in its place":           func(r string) error { return inPlace(r, func() error { return syscall.Mkfifo(r, 0o600) }) },
	"a full folder as its next one": func(r string) error { return os.MkdirAll(r+".tmp/a/b", 0o700) },
	"a file as its next one":        func(r string) error { return os.WriteFile(r+".tmp", []byte("{"), 0o600) },
}

func inPlace(record string, make func() error) error {
	if err := os.Remove(record); err != nil {
		return err
	}
	return make()
}

// TestDamagedRecordsKeepNoMounts: whatever the damage of a volume's records, a live pod gets its
// volume after a restart, and a gone pod leaves no mounts and files.
func TestDamagedRecordsKeepNoMounts(t *testing.T) {
	options := volumetest.Options{Shared: true, Staged: true, Folders: true}
	edit := func(o *volumemanager.Options) { o.Claims = claims(); noMounts(o) }
	for name, damage := range damages {
		for _, which := range []string{"mount", "device"} {
			t.Run(which+" record, "+name, func(t *testing.T) {
				play(t, options, edit, func(s *stage) {
					for _, uid := range []types.UID{"alive", "gone"} {
						require.NoError(s, s.mount(podClaiming(uid, string(uid))))
					}
					s.stop()
					s.pods.Set("gone", volumetest.Gone)
					for _, uid := range []types.UID{"alive", "gone"} {
						record := s.recordOf(uid, "pv-"+string(uid))
						if which == "device" {
							record = volumemanager.DeviceRecordPath(s.root, v1.UniqueVolumeName("example.com/fake/pv-"+uid))
						}
						require.FileExists(s, record)
						require.NoError(s, damage(record))
					}
					s.renew()
					s.start()
					require.NoError(s, s.mount(podClaiming("alive", "alive")))
					require.NoError(s, s.manager.WaitForUnmount(s.Context(), "gone"))
					assert.Len(s, s.plugin.Mounted(), 1)
					s.restart()
					require.NoError(s, s.mount(podClaiming("alive", "alive")), "the record is whole again")
					require.NoError(s, s.remove("alive"))
					synctest.Wait()
					assert.Empty(s, s.plugin.Mounted())
					assert.Empty(s, s.plugin.Staged())
					require.NoError(s, s.manager.CleanupOrphans(s.Context(), nobody))
					assert.Empty(s, filesBelow(s.T, s.root))
					left, err := s.manager.Leftovers(s.Context(), nobody)
					require.NoError(s, err)
					assert.Empty(s, left)
				})
			})
		}
	}
}

func TestLeftovers(t *testing.T) {
	var points []string
	edit := func(o *volumemanager.Options) {
		o.Claims = claims()
		o.Mounts = volumemanager.MountTableFunc(func() ([]string, error) { return append([]string{"/"}, points...), nil })
	}
	play(t, volumetest.Options{Shared: true, Staged: true}, edit, func(s *stage) {
		require.NoError(s, s.mount(podClaiming("alive", "c")))
		staged := s.manager.Snapshot().Volumes[0].DeviceDir
		s.pods.Set("gone", volumetest.Gone)
		s.pods.Set("kept", volumetest.Gone)
		s.files("plugins/example.com~fake/pv-c/globalmount/", "pods/gone/etc-hosts", "pods/empty/", "pods/kept/x/", "pods/alive/volumes/x.com~y/v/",
			"volumemanager/devices/0123.json", "volumemanager/devices/full.json/x")
		s.pods.Set("empty", volumetest.Gone)
		points = []string{
			filepath.Join(s.root, "pods/gone/volumes/x.com~y/v"), filepath.Join(s.root, "pods/gone/volume-subpaths/v/main/0"),
			filepath.Join(s.root, "pods/alive/volumes/x.com~y/v"), filepath.Join(s.root, "pods/kept/x"),
			filepath.Join(s.root, "plugins/x.com/lost"), filepath.Join(s.root, "elsewhere"), staged,
		}
		before := filesBelow(s.T, s.root)
		left, err := s.manager.Leftovers(s.Context(), func(uid types.UID) bool { return uid == "kept" })
		require.NoError(s, err)
		type one struct {
			kind volumemanager.LeftoverKind
			path string
			uid  types.UID
		}
		var got []one
		for _, l := range left {
			path, err := filepath.Rel(s.root, l.Path)
			require.NoError(s, err)
			require.NotEmpty(s, l.Why)
			got = append(got, one{l.Kind, path, l.PodUID})
		}
		assert.Equal(s, []one{
			{volumemanager.LeftoverMount, "plugins/x.com/lost", ""},
			{volumemanager.LeftoverFolder, "pods/empty", "empty"},
			{volumemanager.LeftoverMount, "pods/gone/volume-subpaths/v/main/0", "gone"},
			{volumemanager.LeftoverMount, "pods/gone/volumes/x.com~y/v", "gone"},
			{volumemanager.LeftoverRecord, "volumemanager/devices/0123.json", ""},
			{volumemanager.LeftoverRecord, "volumemanager/devices/full.json", ""},
		}, got)
		assert.Equal(s, before, filesBelow(s.T, s.root), "nothing is changed")
	})
}

func TestLeftoversSayWhy(t *testing.T) {
	noTable := errors.New("no table")
	var broken error
	edit := func(o *volumemanager.Options) {
		o.Mounts = volumemanager.MountTableFunc(func() ([]string, error) { return []string{"/"}, broken })
	}
	options := volumetest.Options{Folders: true, Behave: failing(volumetest.OpTearDown, always, errors.New("busy"))}
	play(t, options, edit, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		s.pods.Set("a", volumetest.Gone)
		s.files("volumemanager/devices/0123.json")
		for _, why := range []string{"", ": busy"} {
			left, err := s.manager.Leftovers(s.Context(), nobody)
			require.NoError(s, err)
			require.Len(s, left, 2)
			assert.Equal(s, volumemanager.Leftover{
				Kind: volumemanager.LeftoverFolder, Path: s.root + "/pods/a", PodUID: "a",
				Why: "the pod is gone, and its volume v is not torn down yet" + why,
			}, left[0])
			assert.Contains(s, left[1].Why, "the record cannot be read: device record: ")
			s.manager.PodChanged("a")
			synctest.Wait()
		}
		text, err := json.Marshal([]volumemanager.LeftoverKind{volumemanager.LeftoverMount, volumemanager.LeftoverFolder, volumemanager.LeftoverRecord, 9})
		require.NoError(s, err)
		assert.JSONEq(s, `["mount", "folder", "record", "LeftoverKind(9)"]`, string(text))

		broken = noTable
		_, err = s.manager.Leftovers(s.Context(), nobody)
		require.ErrorIs(s, err, noTable)
		broken = nil
		ctx, cancel := context.WithCancelCause(s.Context())
		cancel(noTable)
		require.ErrorIs(s, s.manager.CleanupOrphans(ctx, nobody), noTable)
		assert.DirExists(s, s.root+"/pods/a")
	})
}
