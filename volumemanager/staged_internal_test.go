// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
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

// misled is a plugin that fails to find the spec of a volume.
type misled struct{ named }

func (misled) Reconstruct(p Place) (Spec, error) {
	return Spec{Volume: &v1.Volume{Name: p.Inner}}, errors.New("not sure")
}

func TestGuessNeedsASureReconstructor(t *testing.T) {
	m, err := New(Options{Root: "/r"})
	require.NoError(t, err)
	assert.Zero(t, m.guess(misled{named{name: "x.com/a"}}, Place{Root: "/r", PodUID: "uid", Plugin: "x.com/a", Inner: "v"}))
}
