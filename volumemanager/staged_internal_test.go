// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The device record of a volume helps a pod's volume without a record only if the plugin and the
// name of the folder are the same.
func TestStagedVolumeOfAFolder(t *testing.T) {
	pv := func(name string) Spec {
		return Spec{PV: &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	}
	inline := Spec{Volume: &v1.Volume{Name: "pv"}}
	for _, tc := range []struct {
		name   string
		staged bool
		plugin string
		spec   Spec
		want   bool
	}{
		{"the volume", true, "x.com/a", pv("pv"), true},
		{"not staged", false, "x.com/a", pv("pv"), false},
		{"of another plugin", true, "x.com/b", pv("pv"), false},
		{"of another name", true, "x.com/a", pv("other"), false},
		{"an inline volume of the same name", true, "x.com/a", inline, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := New(Options{Root: "/r"})
			require.NoError(t, err)
			m.mu.volumes["v"] = &volume{name: "v", staged: tc.staged, plugin: named{name: tc.plugin}, spec: tc.spec}
			found, ok := m.stagedVolume(Place{Root: "/r", PodUID: "uid", Plugin: "x.com/a", Inner: "pv"})
			assert.Equal(t, tc.want, ok)
			if ok {
				assert.EqualValues(t, "v", found.name)
			}
		})
	}
}

// Mount points are not counted as absent because the folder above them cannot be examined.
func TestMountsBelowAFolderThatCannotBeExamined(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := mountsBelow(filepath.Join(file, "x", "y"), []string{"/"})
	require.ErrorIs(t, err, syscall.ENOTDIR)
	m, err := New(Options{Root: file})
	require.NoError(t, err)
	found, err := m.leftoversOf("uid", []string{"/"})
	require.ErrorIs(t, err, syscall.ENOTDIR)
	assert.Empty(t, found)
	missing, err := mountsBelow(filepath.Join(filepath.Dir(file), "none", "x", "y"), []string{"/"})
	require.NoError(t, err)
	assert.Empty(t, missing)
}

// finder is a plugin with staged volumes that finds the spec of a volume.
type finder struct {
	named
	spec Spec
	err  error
}

func (f finder) Reconstruct(Place) (Spec, error)             { return f.spec, f.err }
func (finder) VolumeID(Spec) (string, error)                 { return "id", nil }
func (finder) DeviceDir(root string, _ Spec) (string, error) { return root + "/plugins/id", nil }
func (finder) MountDevice(context.Context, Device) error     { return nil }
func (finder) UnmountDevice(context.Context, Device) error   { return nil }

// A volume without a record has the spec that its plugin finds for its folder.
func TestGuessNeedsASureReconstructor(t *testing.T) {
	m, err := New(Options{Root: "/r"})
	require.NoError(t, err)
	spec := Spec{Volume: &v1.Volume{Name: "v"}}
	found := MountRecord{Spec: spec, DeviceDir: "/r/plugins/id"}
	for name, tc := range map[string]struct {
		inner string
		err   error
		want  MountRecord
	}{
		"sure": {"v", nil, found}, "not sure": {"v", errors.New("not sure"), MountRecord{}}, "another volume": {"w", nil, MountRecord{}},
	} {
		place := Place{Root: "/r", PodUID: "uid", Plugin: "x.com/a", Inner: tc.inner}
		assert.Equal(t, tc.want, m.guess(finder{named{name: "x.com/a"}, spec, tc.err}, place), name)
	}
}

// A volume of unknown content is the pod's own, whatever the plugin would call it.
func TestVolumeWithoutASpecIsPrivate(t *testing.T) {
	m, err := New(Options{Root: "/r"})
	require.NoError(t, err)
	m.takeIn(finder{named: named{name: "x.com/a"}}, Place{Root: "/r", PodUID: "uid", Plugin: "x.com/a", Inner: "v"}, MountRecord{})
	assert.Contains(t, m.mu.volumes, v1.UniqueVolumeName("x.com/a/uid-v"))
}
