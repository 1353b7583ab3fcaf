// SPDX-License-Identifier: Apache-2.0

package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/local"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

func pv(path string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "local-pv"},
		Spec: v1.PersistentVolumeSpec{
			AccessModes:            []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
		},
	}
}

func plugin(tb testing.TB, o local.Options) *local.Plugin {
	tb.Helper()
	p, err := local.New(o)
	require.NoError(tb, err)
	return p
}

func TestConformance(t *testing.T) {
	for name, mounter := range map[string]mount.Mounter{"as this process can": mount.Detect(), "without mounts": mount.None{}} {
		t.Run(name, func(t *testing.T) { conformance(t, mounter) })
	}
}

func conformance(t *testing.T, mounter mount.Mounter) {
	skip := map[string]string{"TearDownFollowsNoLink": "the volume is not removed"}
	volumetest.Run(t, volumetest.Harness{Skip: skip, Open: func(tb testing.TB, root string) volumetest.Subject {
		mounttest.Clean(tb, root)
		dir := filepath.Join(tb.TempDir(), "disk")
		require.NoError(tb, os.Mkdir(dir, 0o755))
		require.NoError(tb, os.WriteFile(filepath.Join(dir, "precious"), []byte("data"), 0o600))
		return volumetest.Subject{
			Plugin:  func() volumemanager.Plugin { return plugin(tb, local.Options{Mounter: mounter}) },
			Spec:    volumemanager.Spec{PV: pv(dir)},
			Outside: []string{dir},
			Durable: true,
		}
	}})
}
