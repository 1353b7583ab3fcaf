// SPDX-License-Identifier: Apache-2.0

package csi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/csi"
	"github.com/keelson-dev/keelson/volumemanager/plugins/csi/csitest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// world is a root, a driver and a plugin with the driver's socket.
type world struct {
	t      *testing.T
	root   string
	driver *csitest.Driver
	plugin *csi.Plugin
}

func newWorld(t *testing.T, d csitest.Options, o csi.Options) *world {
	t.Helper()
	w := &world{t: t, root: mounttest.Dir(t), driver: startDriver(t, d)}
	w.plugin = plugin(t, w.driver, o)
	return w
}

func (w *world) mount(s volumemanager.Spec) volumemanager.Mount {
	w.t.Helper()
	m := volumemanager.Mount{
		Place: volumemanager.Place{Root: w.root, PodUID: "uid", Plugin: csi.Name, Inner: s.InnerName()}, Spec: s,
		Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid"}},
	}
	var err error
	m.DeviceDir, err = w.plugin.DeviceDir(w.root, s)
	require.NoError(w.t, err)
	return m
}

func (w *world) device(s volumemanager.Spec) volumemanager.Device {
	return volumemanager.Device{Root: w.root, Spec: s, Dir: w.mount(s).DeviceDir}
}

// up stages and publishes a volume, and undoes both at the end of the test.
func (w *world) up(m volumemanager.Mount) (volumemanager.Mounted, error) {
	w.t.Helper()
	w.t.Cleanup(func() {
		ctx := context.Background()
		assert.NoError(w.t, w.plugin.TearDown(ctx, volumemanager.Unmount{Place: m.Place, Spec: m.Spec}))
		if m.DeviceDir != "" {
			assert.NoError(w.t, w.plugin.UnmountDevice(ctx, w.device(m.Spec)))
		}
	})
	if m.DeviceDir != "" {
		if err := w.plugin.MountDevice(w.t.Context(), w.device(m.Spec)); err != nil {
			return volumemanager.Mounted{}, err
		}
	}
	return w.plugin.SetUp(w.t.Context(), m)
}

// last returns the last request of a method.
func last[T proto.Message](w *world, method string) T {
	w.t.Helper()
	calls := w.driver.Calls()
	for i := len(calls) - 1; i >= 0; i-- {
		if r, ok := calls[i].Request.(T); ok && calls[i].Method == method {
			return r
		}
	}
	require.Failf(w.t, "no call", "%s in %v", method, w.driver.Methods())
	panic("not reached")
}

type driverObjects map[string]*storagev1.CSIDriverSpec

func (d driverObjects) Driver(name string) (*storagev1.CSIDriver, bool) {
	s, ok := d[name]
	if !ok {
		return nil, false
	}
	return &storagev1.CSIDriver{Spec: *s}, true
}

func withDriver(s storagev1.CSIDriverSpec) csi.Options {
	return csi.Options{Drivers: driverObjects{csitest.DefaultName: &s}}
}

func TestWayOfAVolume(t *testing.T) {
	w := newWorld(t, csitest.Options{}, csi.Options{NodeName: "node-1"})
	s := pv(nil)
	m := w.mount(s)
	require.NoError(t, w.plugin.MountDevice(t.Context(), w.device(s)))
	out, err := w.plugin.SetUp(t.Context(), m)
	require.NoError(t, err)
	assert.Equal(t, volumemanager.Mounted{Path: m.Dir() + "/mount", Managed: true, SELinuxRelabel: true}, out)
	assert.True(t, strings.HasPrefix(m.DeviceDir, w.root+"/plugins/kubernetes.io/csi/"+csitest.DefaultName+"/"))
	text, err := os.ReadFile(filepath.Join(m.Dir(), "vol_data.json"))
	require.NoError(t, err)
	assert.JSONEq(t, `{"specVolID":"pv-1","volumeHandle":"handle-1","driverName":"folders.csi.example.com","nodeName":"node-1",
		"volumeLifecycleMode":"Persistent","ready":true}`, string(text))
	require.NoError(t, os.WriteFile(filepath.Join(out.Path, "data"), []byte("kept"), 0o600))

	for range 2 { // the volume is published: the driver is not called
		_, err = w.plugin.SetUp(t.Context(), m)
		require.NoError(t, err)
	}
	if _, none := mount.Detect().(mount.None); !none {
		require.ErrorContains(t, w.plugin.UnmountDevice(t.Context(), w.device(s)), "is still mounted at "+out.Path)
	}
	require.NoError(t, w.plugin.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place}))
	require.NoError(t, w.plugin.UnmountDevice(t.Context(), w.device(s)))
	assert.Equal(t, []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"}, w.driver.Methods()[:4])
	assert.NoDirExists(t, m.Dir())
	assert.NoDirExists(t, filepath.Dir(m.DeviceDir))
	data, err := os.ReadFile(filepath.Join(w.driver.Volume("handle-1"), "data"))
	require.NoError(t, err)
	assert.Equal(t, "kept", string(data))

	stage := last[*spec.NodeStageVolumeRequest](w, "NodeStageVolume")
	assert.Equal(t, m.DeviceDir, stage.GetStagingTargetPath())
	publish := last[*spec.NodePublishVolumeRequest](w, "NodePublishVolume")
	assert.Equal(t, map[string]string{"a": "b"}, publish.GetVolumeContext())
	assert.Equal(t, "ext4", publish.GetVolumeCapability().GetMount().GetFsType())
}

func TestAccessModes(t *testing.T) {
	const single = spec.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER
	for _, tc := range []struct {
		modes []v1.PersistentVolumeAccessMode
		can   []spec.NodeServiceCapability_RPC_Type
		want  string
	}{
		{[]v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, []spec.NodeServiceCapability_RPC_Type{}, "SINGLE_NODE_WRITER"},
		{[]v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, []spec.NodeServiceCapability_RPC_Type{single}, "SINGLE_NODE_MULTI_WRITER"},
		{[]v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}, []spec.NodeServiceCapability_RPC_Type{single}, "SINGLE_NODE_SINGLE_WRITER"},
		{[]v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}, []spec.NodeServiceCapability_RPC_Type{single}, "MULTI_NODE_READER_ONLY"},
		{[]v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany}, []spec.NodeServiceCapability_RPC_Type{}, "MULTI_NODE_SINGLE_WRITER"},
		{[]v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteMany}, []spec.NodeServiceCapability_RPC_Type{}, "MULTI_NODE_MULTI_WRITER"},
	} {
		w := newWorld(t, csitest.Options{Capabilities: tc.can}, csi.Options{})
		_, err := w.up(w.mount(pv(func(s *v1.PersistentVolumeSpec) { s.AccessModes = tc.modes })))
		require.NoError(t, err)
		r := last[*spec.NodePublishVolumeRequest](w, "NodePublishVolume")
		assert.Equal(t, tc.want, r.GetVolumeCapability().GetAccessMode().GetMode().String(), "%v", tc.modes)
		assert.Empty(t, r.GetStagingTargetPath(), "not staged")
	}
}

// TestErrorsHaveTheirClass: an operation that may still be under way is uncertain; any other
// failure leaves nothing behind.
func TestErrorsHaveTheirClass(t *testing.T) {
	for code, class := range map[codes.Code]error{
		codes.InvalidArgument: volumemanager.ErrFinal, codes.NotFound: volumemanager.ErrFinal, codes.Internal: volumemanager.ErrFinal,
		codes.FailedPrecondition: volumemanager.ErrFinal, codes.DeadlineExceeded: volumemanager.ErrUncertain,
		codes.Aborted: volumemanager.ErrUncertain, codes.Unavailable: volumemanager.ErrUncertain, codes.ResourceExhausted: volumemanager.ErrUncertain,
	} {
		for _, method := range []string{"NodeStageVolume", "NodePublishVolume"} {
			var broken atomic.Bool
			broken.Store(true)
			w := newWorld(t, csitest.Options{Fault: func(m string, _ proto.Message) error {
				if broken.Load() && m == method {
					return status.Error(code, "as told")
				}
				return nil
			}}, csi.Options{})
			m := w.mount(pv(nil))
			_, err := w.up(m)
			require.ErrorIs(t, err, class, "%s %s", method, code)
			require.ErrorContains(t, err, fmt.Sprintf(`volume "pv-1": %s: %s: as told`, method, code))
			left := filepath.Dir(m.DeviceDir)
			if method == "NodePublishVolume" {
				left = m.Dir()
			}
			_, statErr := os.Stat(left)
			assert.Equal(t, errors.Is(class, volumemanager.ErrFinal), os.IsNotExist(statErr), "%s %s", method, code)
			broken.Store(false)
			_, err = w.up(m)
			require.NoError(t, err, "%s %s: it can be tried again", method, code)
		}
	}
}

func TestDriverThatDoesNotRunIsWaitedFor(t *testing.T) {
	d := startDriver(t, csitest.Options{})
	for name, socket := range map[string]func(string) string{
		"unknown": func(string) string { return "" }, "no file": csi.SocketsBelow(t.TempDir()),
		"nobody listens": func(string) string { return "/dev/null" },
	} {
		p, err := csi.New(csi.Options{Socket: socket})
		require.NoError(t, err)
		w := &world{t: t, root: t.TempDir(), driver: d, plugin: p}
		_, err = p.SetUp(t.Context(), w.mount(pv(nil)))
		require.ErrorIs(t, err, volumemanager.ErrTransient, name)
		require.ErrorIs(t, err, csi.ErrNoDriver, name)
		assert.NoDirExists(t, filepath.Join(w.root, "pods"), "nothing was done")
		require.NoError(t, p.TearDown(t.Context(), volumemanager.Unmount{Place: w.mount(pv(nil)).Place}), "and nothing is to be undone")
	}
}

// TestUpstream121271FailedRepublishLeavesTheVolume: also 139045. The kubelet removed the volume
// folder of a running pod.
func TestUpstream121271FailedRepublishLeavesTheVolume(t *testing.T) {
	for name, mounter := range map[string]mount.Mounter{"as this process can": mount.Detect(), "links": mount.None{}} {
		t.Run(name, func(t *testing.T) { failedRepublish(t, mounter) })
	}
}

func failedRepublish(t *testing.T, mounter mount.Mounter) {
	yes := true
	var broken atomic.Bool
	w := newWorld(t, csitest.Options{Mounter: mounter, Fault: func(m string, _ proto.Message) error {
		if broken.Load() && m == "NodePublishVolume" {
			return status.Error(codes.Internal, "as told")
		}
		return nil
	}}, withDriver(storagev1.CSIDriverSpec{RequiresRepublish: &yes}))
	m := w.mount(pv(nil))
	require.True(t, w.plugin.NeedsRefresh(m.Spec))
	out, err := w.up(m)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(out.Path, "data"), nil, 0o600))
	broken.Store(true)
	for _, set := range []func(){func() { m.Remount = true }, func() { m.Remount, m.Reconstructed = false, true }} {
		set()
		_, err = w.plugin.SetUp(t.Context(), m)
		require.ErrorIs(t, err, volumemanager.ErrFinal)
		assert.FileExists(t, filepath.Join(out.Path, "data"))
		assert.FileExists(t, filepath.Join(m.Dir(), "vol_data.json"))
	}
	broken.Store(false)
	before := len(w.driver.Methods())
	m.Remount = true
	_, err = w.plugin.SetUp(t.Context(), m)
	require.NoError(t, err)
	assert.Equal(t, []string{"NodePublishVolume"}, w.driver.Methods()[before:])
}

// TestUpstreamTornVolDataIsNoObstacle is the [C] fault: the kubelet does not write vol_data.json
// atomically, and loses track of the volume if a crash truncates the file.
func TestUpstreamTornVolDataIsNoObstacle(t *testing.T) {
	w := newWorld(t, csitest.Options{}, csi.Options{})
	m := w.mount(pv(nil))
	out, err := w.up(m)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(m.Dir(), "vol_data.json.tmp"), []byte(`{"vol`), 0o600), "our own crash")
	_, err = w.plugin.SetUp(t.Context(), m)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(m.Dir(), "vol_data.json"), []byte(`{"vol`), 0o600), "the kubelet's crash")
	require.NoError(t, w.plugin.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place, Spec: m.Spec}), "the spec says what it is")
	assert.NoDirExists(t, out.Path)
	assert.NoDirExists(t, m.Dir())
}

func TestReconstruct(t *testing.T) {
	w := newWorld(t, csitest.Options{}, csi.Options{})
	for _, s := range []volumemanager.Spec{pv(nil), inline()} {
		m := w.mount(s)
		_, err := w.plugin.Reconstruct(m.Place)
		require.Error(t, err)
		_, err = w.up(m)
		require.NoError(t, err)
		got, err := w.plugin.Reconstruct(m.Place)
		require.NoError(t, err)
		want, err := w.plugin.VolumeID(s)
		require.NoError(t, err)
		id, err := w.plugin.VolumeID(got)
		require.NoError(t, err)
		assert.Equal(t, want, id)
		assert.Equal(t, s.InnerName(), got.InnerName())
	}
}

// TestPublishedAgainAfterReboot: the data has ready set, but nothing is mounted.
func TestPublishedAgainAfterReboot(t *testing.T) {
	mounter := mounttest.Need(t)
	w := newWorld(t, csitest.Options{}, csi.Options{})
	m := w.mount(pv(nil))
	out, err := w.up(m)
	require.NoError(t, err)
	require.NoError(t, mounter.Unmount(t.Context(), out.Path))
	_, err = w.plugin.SetUp(t.Context(), m)
	require.NoError(t, err)
	_, mounted, err := mounter.At(out.Path)
	require.NoError(t, err)
	assert.True(t, mounted, "an empty folder is not the volume")
}

// TestDriverThatLeavesItsMount: no file behind a mount left by a driver is removed.
func TestDriverThatLeavesItsMount(t *testing.T) {
	mounter := mounttest.Need(t)
	precious := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(precious, "data"), nil, 0o600))
	w := newWorld(t, csitest.Options{}, csi.Options{})
	m := w.mount(pv(nil))
	out, err := w.up(m)
	require.NoError(t, err)
	w.driver = startDriver(t, csitest.Options{Dir: t.TempDir(), After: func(method string, _ proto.Message) error {
		if method != "NodeUnpublishVolume" {
			return nil
		}
		require.NoError(t, os.Mkdir(out.Path, 0o755))
		return mounter.Mount(context.Background(), mount.Request{Source: precious, Target: out.Path, Options: []string{"bind"}})
	}})
	bad := plugin(t, w.driver, csi.Options{})
	require.ErrorContains(t, bad.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place}), "left its mount")
	assert.FileExists(t, filepath.Join(precious, "data"))
	assert.FileExists(t, filepath.Join(m.Dir(), "vol_data.json"), "the way back is not lost")
}

func TestInfo(t *testing.T) {
	w := newWorld(t, csitest.Options{NodeID: "n-7"}, csi.Options{})
	info, err := w.plugin.Info(t.Context(), csitest.DefaultName)
	require.NoError(t, err)
	assert.Equal(t, "n-7", info.NodeID)
	_, err = w.plugin.Info(t.Context(), "another")
	require.ErrorIs(t, err, csi.ErrNoDriver)
}

func TestDataRoundTripsWithTheKubelets(t *testing.T) {
	w := newWorld(t, csitest.Options{}, csi.Options{})
	m := w.mount(pv(nil))
	require.NoError(t, os.MkdirAll(m.Dir(), 0o750))
	text, err := json.Marshal(map[string]string{ // as the kubelet (1.36) writes it
		"specVolID": "pv-1", "volumeHandle": "handle-1", "driverName": csitest.DefaultName, "nodeName": "n",
		"attachmentID": "csi-123", "volumeLifecycleMode": "Persistent", "seLinuxMountContext": "",
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(m.Dir(), "vol_data.json"), text, 0o600))
	got, err := w.plugin.Reconstruct(m.Place)
	require.NoError(t, err)
	assert.Equal(t, "handle-1", got.PV.Spec.CSI.VolumeHandle)
	require.NoError(t, w.plugin.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place}))
}
