// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/volumemanager"
)

func deviceCases() []testCase {
	return []testCase{
		{"VolumeIDIsTheSameForAll", volumeID},
		{"DeviceDirIsInsideOfTheRoot", deviceDirIsInside},
		{"MountDeviceIsIdempotent", mountDeviceIsIdempotent},
		{"UnmountDeviceOfNeverMounted", unmountDeviceOfNeverMounted},
		{"UnmountDeviceAfterRestart", unmountDeviceAfterRestart},
	}
}

func volumeID(b *bench) {
	s, ok := b.plugin.(volumemanager.Shared)
	if !ok {
		b.Skip("the plugin has no shared volumes")
	}
	first, err := s.VolumeID(b.Spec)
	require.NoError(b, err, "VolumeID")
	b.restart()
	again, err := b.plugin.(volumemanager.Shared).VolumeID(b.Spec)
	require.NoError(b, err, "VolumeID")
	require.Equal(b, first, again, "VolumeID is the same after a restart")
}

// staged skips the case if the volume is not staged.
func (b *bench) staged() volumemanager.DeviceMounter {
	d, ok := b.plugin.(volumemanager.DeviceMounter)
	if !ok || b.deviceDir() == "" {
		b.Skip("the volume is not staged")
	}
	return d
}

func deviceDirIsInside(b *bench) {
	b.staged()
	dir := b.deviceDir()
	rel, err := filepath.Rel(b.root, dir)
	require.NoError(b, err, "DeviceDir is below root")
	require.True(b, filepath.IsLocal(rel) && rel != ".", "DeviceDir is below root, not %s", dir)
	require.False(b, strings.HasPrefix(rel, "pods"+string(filepath.Separator)), "DeviceDir is no pod's")
}

func mountDeviceIsIdempotent(b *bench) {
	d := b.staged()
	for range 3 {
		require.NoError(b, d.MountDevice(b.Context(), b.device()), "MountDevice again")
	}
	b.setUp(b.mount("pod-0"))
	require.NoError(b, d.MountDevice(b.Context(), b.device()), "MountDevice while a pod uses the volume")
	b.tearDown(b.unmount("pod-0"))
	for range 3 {
		require.NoError(b, d.UnmountDevice(b.Context(), b.device()), "UnmountDevice again")
	}
}

func unmountDeviceOfNeverMounted(b *bench) {
	d := b.staged()
	require.NoError(b, d.UnmountDevice(b.Context(), b.device()), "UnmountDevice of a volume that was never staged")
}

func unmountDeviceAfterRestart(b *bench) {
	b.staged()
	b.stage()
	b.restart()
	b.unstage()
	require.NoDirExists(b, b.deviceDir(), "UnmountDevice removes DeviceDir")
}
