// SPDX-License-Identifier: Apache-2.0

package csi_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/csi"
	"github.com/keelson-dev/keelson/volumemanager/plugins/csi/csitest"
)

// TestDamagedDataKeepsNoMounts: whatever the damage of a vol_data.json, the volume is set up again
// for a live pod, and unpublished and unstaged at the end.
func TestDamagedDataKeepsNoMounts(t *testing.T) {
	for name, damage := range map[string]func(file string) error{
		"cut short":          func(f string) error { return os.Truncate(f, 7) },
		"grown to gigabytes": func(f string) error { return os.Truncate(f, 3<<30) },
		"a full folder in its place": func(f string) error {
			if err := os.Remove(f); err != nil {
				return err
			}
			return os.MkdirAll(f+"/a", 0o700)
		},
		"a full folder as its next one": func(f string) error { return os.MkdirAll(f+".tmp/a", 0o700) },
	} {
		for _, again := range []string{"torn down", "set up again"} {
			t.Run(name+", "+again, func(t *testing.T) {
				w := newWorld(t, csitest.Options{}, csi.Options{})
				m := w.mount(pv(nil))
				out, err := w.up(m)
				require.NoError(t, err)
				require.NotEmpty(t, m.DeviceDir)
				require.NoError(t, damage(filepath.Join(m.Dir(), "vol_data.json")))
				require.NoError(t, damage(filepath.Join(filepath.Dir(m.DeviceDir), "vol_data.json")))
				if again == "set up again" {
					m.Reconstructed = true
					_, err := w.up(m)
					require.NoError(t, err)
				}
				require.NoError(t, w.plugin.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place, Spec: m.Spec}))
				require.NoError(t, w.plugin.UnmountDevice(t.Context(), w.device(m.Spec)))
				assert.NoDirExists(t, out.Path)
				assert.NoDirExists(t, m.Dir())
				assert.NoDirExists(t, filepath.Dir(m.DeviceDir))
				assert.Contains(t, w.driver.Methods(), "NodeUnpublishVolume")
				assert.Contains(t, w.driver.Methods(), "NodeUnstageVolume")
			})
		}
	}
}
