// SPDX-License-Identifier: Apache-2.0

package local_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/local"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

func mountOf(t *testing.T, root string, uid types.UID, pv *v1.PersistentVolume) volumemanager.Mount {
	t.Helper()
	m := volumemanager.Mount{
		Place: volumemanager.Place{Root: root, PodUID: uid, Plugin: local.Name, Inner: pv.Name},
		Spec:  volumemanager.Spec{PV: pv}, Pod: &v1.Pod{},
	}
	var err error
	m.DeviceDir, err = plugin(t, local.Options{}).DeviceDir(root, m.Spec)
	require.NoError(t, err)
	return m
}

func unmountOf(m volumemanager.Mount) volumemanager.Unmount {
	return volumemanager.Unmount{Place: m.Place, Spec: m.Spec}
}

func deviceOf(m volumemanager.Mount) volumemanager.Device {
	return volumemanager.Device{Root: m.Root, Spec: m.Spec, Dir: m.DeviceDir}
}

// TestUpstreamDirectoryIsTornDownWithoutItsPath is the [M] row: after a restart the kubelet's
// reconstruction of a folder always failed, and the kubelet tried to clean up by force, once.
func TestUpstreamDirectoryIsTornDownWithoutItsPath(t *testing.T) {
	mounttest.Need(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data"), nil, 0o600))
	m := mountOf(t, mounttest.Dir(t), "uid", pv(dir))
	_, err := plugin(t, local.Options{}).SetUp(t.Context(), m)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(m.Dir(), "data"))

	busy, err := os.Open(filepath.Join(m.Dir(), "data"))
	require.NoError(t, err)
	p, u := plugin(t, local.Options{}), volumemanager.Unmount{Place: m.Place}
	require.Error(t, p.TearDown(t.Context(), u), "busy")
	require.FileExists(t, filepath.Join(m.Dir(), "data"), "it is not lazy")
	require.NoError(t, busy.Close())
	require.NoError(t, p.TearDown(t.Context(), u), "and can be tried again")
	assert.NoDirExists(t, m.Dir())
	assert.FileExists(t, filepath.Join(dir, "data"))
}

func TestReadOnlyAndMountOptions(t *testing.T) {
	mounttest.Need(t)
	volume := pv(t.TempDir())
	volume.Spec.MountOptions = []string{"noexec"}
	m := mountOf(t, mounttest.Dir(t), "uid", volume)
	m.Spec.ReadOnly = true
	p := plugin(t, local.Options{})
	out, err := p.SetUp(t.Context(), m)
	require.NoError(t, err)
	assert.Equal(t, volumemanager.Mounted{Path: m.Dir(), ReadOnly: true}, out)
	require.ErrorIs(t, os.WriteFile(filepath.Join(m.Dir(), "x"), nil, 0o600), syscall.EROFS)
	info, _, err := mount.Detect().At(m.Dir())
	require.NoError(t, err)
	assert.Contains(t, info.Options, "noexec")
	require.NoError(t, p.TearDown(t.Context(), unmountOf(m)))
}

// TestKilledBetweenBindAndFlags: the kernel binds first, then makes the mount read-only. An agent
// killed in between left the mount writable, and the next agent treated it as complete.
func TestKilledBetweenBindAndFlags(t *testing.T) {
	mounter := mounttest.Need(t)
	volume := pv(t.TempDir())
	volume.Spec.MountOptions = []string{"noexec", "nosuid"}
	m := mountOf(t, mounttest.Dir(t), "uid", volume)
	m.Spec.ReadOnly, m.Reconstructed = true, true
	require.NoError(t, os.MkdirAll(m.Dir(), 0o750))
	require.NoError(t, mounter.Mount(t.Context(), mount.Request{Source: volume.Spec.Local.Path, Target: m.Dir(), Options: []string{"bind"}}))
	p := plugin(t, local.Options{})
	before, _, err := mounter.At(m.Dir())
	require.NoError(t, err)
	for range 2 {
		_, err = p.SetUp(t.Context(), m)
		require.NoError(t, err)
		require.ErrorIs(t, os.WriteFile(filepath.Join(m.Dir(), "x"), nil, 0o600), syscall.EROFS)
		info, _, err := mounter.At(m.Dir())
		require.NoError(t, err)
		assert.Contains(t, info.Options, "nosuid,noexec")
		assert.Equal(t, before.Root, info.Root)
	}
	require.NoError(t, p.TearDown(t.Context(), unmountOf(m)))
	assert.Empty(t, mounttest.Below(t, m.Root), "it was not mounted once more")
}

func TestFSGroupOfTheFirstPodOnly(t *testing.T) {
	mounttest.Need(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "data")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	root := mounttest.Dir(t)
	p := plugin(t, local.Options{})
	for i, uid := range []types.UID{"one", "two"} {
		group := int64(1000 + i)
		m := mountOf(t, root, uid, pv(dir))
		m.FSGroup = &group
		_, err := p.SetUp(t.Context(), m)
		require.NoError(t, err)
		defer func() { require.NoError(t, p.TearDown(t.Context(), unmountOf(m))) }()
		info, err := os.Stat(file)
		require.NoError(t, err)
		assert.EqualValues(t, 1000, info.Sys().(*syscall.Stat_t).Gid)
		assert.Equal(t, os.FileMode(0o660), info.Mode())
	}
}

func TestHostileVolumes(t *testing.T) {
	p := plugin(t, local.Options{Mounter: mount.None{}})
	for _, path := range []string{"/a/../b", "relative", "", "/a\x00"} {
		_, err := p.SetUp(t.Context(), mountOf(t, t.TempDir(), "uid", pv(path)))
		require.ErrorIs(t, err, volumemanager.ErrTerminal, path)
	}
	_, err := p.SetUp(t.Context(), mountOf(t, t.TempDir(), "uid", pv("/no/such/folder")))
	require.ErrorIs(t, err, volumemanager.ErrTransient)
	bad := pv("/data")
	bad.Name = "../../etc"
	_, err = p.DeviceDir("/root", volumemanager.Spec{PV: bad})
	require.Error(t, err)
	err = p.UnmountDevice(t.Context(), volumemanager.Device{Root: "/root", Dir: "/etc", Spec: volumemanager.Spec{PV: pv("/x")}})
	require.ErrorContains(t, err, "is not below")
}

// TestDevice tests the lifecycle of a device: formatted once, shared by pods, grown and unmounted,
// with its data kept.
func TestDevice(t *testing.T) {
	device := mounttest.Loop(t, 16<<20)
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skip("no mkfs.ext4 here")
	}
	root := mounttest.Dir(t)
	formats := 0
	p := plugin(t, local.Options{})
	p.SetRun(func(ctx context.Context, name string, args ...string) ([]byte, error) {
		if name == "mkfs.ext4" {
			formats++
		}
		return exec.CommandContext(ctx, name, args...).CombinedOutput()
	})
	one, two := mountOf(t, root, "one", pv(device)), mountOf(t, root, "two", pv(device))
	_, err := p.SetUp(t.Context(), one)
	require.ErrorContains(t, err, "is not mounted", "not staged")
	for round := range 2 {
		require.NoError(t, p.MountDevice(t.Context(), deviceOf(one)))
		require.NoError(t, p.MountDevice(t.Context(), deviceOf(one)))
		for _, m := range []volumemanager.Mount{one, two} {
			_, err := p.SetUp(t.Context(), m)
			require.NoError(t, err)
		}
		file := filepath.Join(two.Dir(), "data")
		if round == 0 {
			require.NoError(t, os.WriteFile(filepath.Join(one.Dir(), "data"), []byte("kept"), 0o600))
		}
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, "kept", string(data))
		require.NoError(t, p.Expand(t.Context(), volumemanager.Expansion{Device: deviceOf(one), MountedPath: one.Dir(), To: resource.MustParse("16Mi")}))
		require.NoError(t, p.TearDown(t.Context(), unmountOf(one)))
		require.ErrorContains(t, p.UnmountDevice(t.Context(), deviceOf(one)), "is still mounted at "+two.Dir())
		require.NoError(t, p.TearDown(t.Context(), unmountOf(two)))
		require.NoError(t, p.UnmountDevice(t.Context(), deviceOf(one)))
		assert.NoDirExists(t, one.DeviceDir)
	}
	assert.Equal(t, 1, formats)
}

// TestDeviceWithDataIsNeverFormatted: no content is overwritten, not even a single byte at the
// beginning or end of the device.
func TestDeviceWithDataIsNeverFormatted(t *testing.T) {
	const size = 8 << 20
	device := mounttest.Loop(t, size)
	p := plugin(t, local.Options{})
	p.SetRun(func(context.Context, string, ...string) ([]byte, error) {
		t.Error("formatted")
		return nil, nil
	})
	m := mountOf(t, mounttest.Dir(t), "uid", pv(device))
	for _, at := range []int64{0, 510, 1 << 19, 1<<20 - 1, size - 512, size - 128<<10} {
		require.NoError(t, writeAt(device, at, []byte{1}))
		require.ErrorIs(t, p.MountDevice(t.Context(), deviceOf(m)), volumemanager.ErrTerminal, "%d", at)
		require.NoError(t, writeAt(device, at, []byte{0}))
	}
	require.NoError(t, writeAt(device, 0, []byte("XFSB")))
	require.ErrorContains(t, p.MountDevice(t.Context(), deviceOf(m)), "holds xfs, not ext4; it is not formatted")
	bad := "../../bin/sh"
	m.Spec.PV.Spec.Local.FSType = &bad
	require.ErrorIs(t, p.MountDevice(t.Context(), deviceOf(m)), volumemanager.ErrTerminal)
}

func writeAt(device string, at int64, data []byte) error {
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(data, at); err != nil {
		return err
	}
	return f.Sync()
}

func TestBlock(t *testing.T) {
	device := mounttest.Loop(t, 1<<20)
	require.NoError(t, writeAt(device, 0, []byte("precious")))
	volume := pv(device)
	block := v1.PersistentVolumeBlock
	volume.Spec.VolumeMode = &block
	m := mountOf(t, t.TempDir(), "uid", volume)
	assert.Empty(t, m.DeviceDir)
	p := plugin(t, local.Options{})
	for range 2 {
		out, err := p.MapBlock(t.Context(), m)
		require.NoError(t, err)
		assert.Equal(t, volumemanager.Mounted{Path: device}, out)
		target, err := os.Readlink(m.BlockPath())
		require.NoError(t, err)
		assert.Equal(t, device, target)
	}
	for range 2 {
		require.NoError(t, p.UnmapBlock(t.Context(), unmountOf(m)))
		assert.NoFileExists(t, m.BlockPath())
	}
	data := make([]byte, 8)
	f, err := os.Open(device)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.Read(data)
	require.NoError(t, err)
	assert.True(t, bytes.Equal([]byte("precious"), data))
	m.Spec.PV = pv(t.TempDir())
	_, err = p.MapBlock(t.Context(), m)
	require.ErrorContains(t, err, "is no block device")
}

func Example() {
	disk, _ := os.MkdirTemp("", "disk")
	defer os.RemoveAll(disk)
	root, _ := os.MkdirTemp("", "root")
	defer os.RemoveAll(root)
	plugin, err := local.New(local.Options{Mounter: mount.None{}}) // links in the place of mounts
	if err != nil {
		fmt.Println(err)
		return
	}
	place := volumemanager.Place{Root: root, PodUID: "uid", Plugin: local.Name, Inner: "local-pv"}
	mounted, err := plugin.SetUp(context.Background(), volumemanager.Mount{ // a volumemanager.Manager does this
		Place: place, Spec: volumemanager.Spec{PV: pv(disk)}, Pod: &v1.Pod{},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	target, err := os.Readlink(mounted.Path)
	fmt.Println(target == disk, err)
	// Output: true <nil>
}
