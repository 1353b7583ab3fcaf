// SPDX-License-Identifier: Apache-2.0

package hostpath_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/hostpath"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

func TestConformance(t *testing.T) {
	volumetest.Run(t, volumetest.Harness{Open: func(tb testing.TB, _ string) volumetest.Subject {
		dir := tb.TempDir()
		require.NoError(tb, os.WriteFile(filepath.Join(dir, "precious"), []byte("data"), 0o600))
		kind := v1.HostPathDirectory
		return volumetest.Subject{
			Plugin: func() volumemanager.Plugin {
				p, err := hostpath.New(hostpath.Options{})
				require.NoError(tb, err)
				return p
			},
			Spec: volumemanager.Spec{Volume: &v1.Volume{Name: "host", VolumeSource: v1.VolumeSource{
				HostPath: &v1.HostPathVolumeSource{Path: dir, Type: &kind},
			}}},
			Outside: []string{dir},
			Durable: true,
		}
	}})
}
