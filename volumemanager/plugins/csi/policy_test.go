// SPDX-License-Identifier: Apache-2.0

package csi_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/csi"
	"github.com/keelson-dev/keelson/volumemanager/plugins/csi/csitest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/secret"
)

// TestFSGroupPolicies: whether the agent, the driver or neither applies the fsGroup.
func TestFSGroupPolicies(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files to any group")
	}
	file, none, once := storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	many := func(s *v1.PersistentVolumeSpec) { s.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany} }
	noType := func(s *v1.PersistentVolumeSpec) { s.CSI.FSType = "" }
	readOnly := func(s *v1.PersistentVolumeSpec) { s.CSI.ReadOnly = true }
	mountGroup := []spec.NodeServiceCapability_RPC_Type{spec.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP}
	for _, tc := range []struct {
		name   string
		policy *storagev1.FSGroupPolicy
		edit   func(*v1.PersistentVolumeSpec)
		can    []spec.NodeServiceCapability_RPC_Type
		gid    uint32
		passed string
	}{
		{"default", nil, nil, nil, 1234, ""},
		{"default, no type", nil, noType, nil, 0, ""},
		{"default, many writers", nil, many, nil, 0, ""},
		{"once, read-only", &once, readOnly, nil, 0, ""},
		{"file, many writers", &file, many, nil, 1234, ""},
		{"none", &none, nil, nil, 0, ""},
		{"by the driver", &file, nil, mountGroup, 0, "1234"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, csitest.Options{Capabilities: tc.can}, withDriver(storagev1.CSIDriverSpec{FSGroupPolicy: tc.policy}))
			data := filepath.Join(w.driver.Volume("handle-1"), "data")
			require.NoError(t, os.MkdirAll(filepath.Dir(data), 0o755))
			require.NoError(t, os.WriteFile(data, nil, 0o600))
			group := int64(1234)
			m := w.mount(pv(tc.edit))
			m.FSGroup = &group
			_, err := w.up(m)
			require.NoError(t, err)
			info, err := os.Stat(data)
			require.NoError(t, err)
			assert.Equal(t, tc.gid, info.Sys().(*syscall.Stat_t).Gid)
			r := last[*spec.NodePublishVolumeRequest](w, "NodePublishVolume")
			assert.Equal(t, tc.passed, r.GetVolumeCapability().GetMount().GetVolumeMountGroup())
		})
	}
}

type tokens struct{}

func (tokens) Token(_ context.Context, pod *v1.Pod, audience string, _ *int64) (csi.Token, error) {
	return csi.Token{Value: "token of " + pod.Name + " for " + audience, Expires: time.Unix(0, 0).UTC()}, nil
}

func TestDriverIsToldOfThePod(t *testing.T) {
	yes := true
	o := withDriver(storagev1.CSIDriverSpec{PodInfoOnMount: &yes, TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}}})
	o.Tokens = tokens{}
	w := newWorld(t, csitest.Options{}, o)
	_, err := w.up(w.mount(pv(nil)))
	require.NoError(t, err)
	assert.Equal(t, map[string]string{
		"a": "b", "csi.storage.k8s.io/pod.name": "pod", "csi.storage.k8s.io/pod.namespace": "ns", "csi.storage.k8s.io/pod.uid": "uid",
		"csi.storage.k8s.io/serviceAccount.name": "default", "csi.storage.k8s.io/ephemeral": "false",
		"csi.storage.k8s.io/serviceAccount.tokens": `{"vault":{"token":"token of pod for vault","expirationTimestamp":"1970-01-01T00:00:00Z"}}`,
	}, last[*spec.NodePublishVolumeRequest](w, "NodePublishVolume").GetVolumeContext())

	o.Tokens = nil
	w = newWorld(t, csitest.Options{}, o)
	m := w.mount(pv(nil))
	_, err = w.up(m)
	require.ErrorIs(t, err, volumemanager.ErrTerminal)
}

func TestInlineVolumes(t *testing.T) {
	yes := true
	w := newWorld(t, csitest.Options{}, withDriver(storagev1.CSIDriverSpec{
		PodInfoOnMount: &yes, VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral},
	}))
	m := w.mount(inline())
	assert.Empty(t, m.DeviceDir, "an inline volume is not staged")
	_, err := w.up(m)
	require.NoError(t, err)
	r := last[*spec.NodePublishVolumeRequest](w, "NodePublishVolume")
	assert.Regexp(t, "^csi-[0-9a-f]{64}$", r.GetVolumeId())
	assert.Equal(t, "true", r.GetVolumeContext()["csi.storage.k8s.io/ephemeral"])
	assert.Equal(t, []string{"NodePublishVolume"}, w.driver.Methods())

	w = newWorld(t, csitest.Options{}, withDriver(storagev1.CSIDriverSpec{}))
	_, err = w.up(w.mount(inline()))
	require.ErrorContains(t, err, "has no inline volumes")
}

// TestSecretsReachTheDriverAndNoError: a secret repeated in a driver's answer does not reach the
// logs.
func TestSecretsReachTheDriverAndNoError(t *testing.T) {
	const value = "correct horse battery staple"
	source := secret.SourceFunc(func(_ context.Context, namespace, name string) (*v1.Secret, error) {
		if name != "creds" || namespace != "storage" {
			return nil, errors.New("no such secret")
		}
		return &v1.Secret{Data: map[string][]byte{"password": []byte(value)}}, nil
	})
	for _, method := range []string{"NodeStageVolume", "NodePublishVolume"} {
		w := newWorld(t, csitest.Options{Fault: func(m string, r proto.Message) error {
			if s, ok := r.(interface{ GetSecrets() map[string]string }); ok && m == method {
				return status.Error(codes.InvalidArgument, "wrong password: "+s.GetSecrets()["password"])
			}
			return nil
		}}, csi.Options{Secrets: source})
		ref := &v1.SecretReference{Namespace: "storage", Name: "creds"}
		_, err := w.up(w.mount(pv(func(s *v1.PersistentVolumeSpec) { s.CSI.NodeStageSecretRef, s.CSI.NodePublishSecretRef = ref, ref })))
		require.ErrorContains(t, err, "wrong password: (secret)")
		assert.NotContains(t, err.Error(), value)
	}
	w := newWorld(t, csitest.Options{}, csi.Options{Secrets: source})
	_, err := w.up(w.mount(pv(func(s *v1.PersistentVolumeSpec) {
		s.CSI.NodeStageSecretRef = &v1.SecretReference{Namespace: "storage", Name: "gone"}
	})))
	require.ErrorIs(t, err, volumemanager.ErrTransient)
	require.ErrorContains(t, err, "secret storage/gone")
	assert.Empty(t, w.driver.Methods(), "fetched before anything is done")
}

type attachments struct{ err error }

func (a attachments) Attachment(context.Context, volumemanager.Spec) (map[string]string, error) {
	return map[string]string{"device": "/dev/xyz"}, a.err
}

func TestAttachment(t *testing.T) {
	w := newWorld(t, csitest.Options{}, csi.Options{Attachments: attachments{}})
	assert.True(t, w.plugin.Attachable(pv(nil)))
	assert.False(t, w.plugin.Attachable(inline()))
	_, err := w.up(w.mount(pv(nil)))
	require.NoError(t, err)
	for _, got := range []map[string]string{
		last[*spec.NodeStageVolumeRequest](w, "NodeStageVolume").GetPublishContext(),
		last[*spec.NodePublishVolumeRequest](w, "NodePublishVolume").GetPublishContext(),
	} {
		assert.Equal(t, map[string]string{"device": "/dev/xyz"}, got)
	}
	path, err := w.plugin.WaitForAttach(t.Context(), pv(nil), "")
	require.NoError(t, err)
	assert.Empty(t, path)

	no := false
	o := withDriver(storagev1.CSIDriverSpec{AttachRequired: &no})
	o.Attachments = attachments{errors.New("not asked")}
	w = newWorld(t, csitest.Options{}, o)
	assert.False(t, w.plugin.Attachable(pv(nil)))
	_, err = w.up(w.mount(pv(nil)))
	require.NoError(t, err)
}

// full are the Attachments of a node at its volume limit.
type full struct{ attachments }

func (full) Exhausted(context.Context, volumemanager.Spec) (bool, error) { return true, nil }

func TestExhaustedIsAskedOfDriversThatCount(t *testing.T) {
	for name, tc := range map[string]struct {
		period      *int64
		attachments csi.Attachments
		want        bool
	}{
		"a node that is full":           {new(int64(60)), full{}, true},
		"one that is not looked at":     {nil, full{}, false},
		"nobody knows of attachments":   {new(int64(60)), nil, false},
		"attachments that do not count": {new(int64(60)), attachments{}, false},
	} {
		o := withDriver(storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: tc.period})
		o.Attachments = tc.attachments
		got, err := newWorld(t, csitest.Options{}, o).plugin.Exhausted(t.Context(), pv(nil))
		require.NoError(t, err, name)
		assert.Equal(t, tc.want, got, name)
	}
}

func TestExpand(t *testing.T) {
	expand := []spec.NodeServiceCapability_RPC_Type{
		spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, spec.NodeServiceCapability_RPC_EXPAND_VOLUME,
	}
	var fault error
	w := newWorld(t, csitest.Options{Capabilities: expand, Fault: func(m string, _ proto.Message) error {
		if m == "NodeExpandVolume" {
			return fault
		}
		return nil
	}}, csi.Options{})
	e := volumemanager.Expansion{Device: w.device(pv(nil)), MountedPath: "/mounted", To: resource.MustParse("2Gi")}
	require.NoError(t, w.plugin.Expand(t.Context(), e))
	r := last[*spec.NodeExpandVolumeRequest](w, "NodeExpandVolume")
	assert.EqualValues(t, 2<<30, r.GetCapacityRange().GetRequiredBytes())
	assert.Equal(t, "/mounted", r.GetVolumePath())
	assert.Equal(t, e.Dir, r.GetStagingTargetPath())
	fault = status.Error(codes.FailedPrecondition, "in use")
	require.ErrorIs(t, w.plugin.Expand(t.Context(), e), volumemanager.ErrTerminal, "never again on this node")

	w = newWorld(t, csitest.Options{}, csi.Options{})
	require.NoError(t, w.plugin.Expand(t.Context(), e), "a driver that cannot does not have to")
	assert.Empty(t, w.driver.Methods())
}

func TestBlockVolume(t *testing.T) {
	device := mounttest.Loop(t, 1<<20)
	w := newWorld(t, csitest.Options{}, csi.Options{})
	require.NoError(t, os.MkdirAll(filepath.Dir(w.driver.Volume("handle-1")), 0o755))
	require.NoError(t, os.Symlink(device, w.driver.Volume("handle-1")))
	block := v1.PersistentVolumeBlock
	m := w.mount(pv(func(s *v1.PersistentVolumeSpec) { s.VolumeMode = &block }))
	require.NoError(t, w.plugin.MountDevice(t.Context(), w.device(m.Spec)))
	for range 2 {
		out, err := w.plugin.MapBlock(t.Context(), m)
		require.NoError(t, err)
		info, err := os.Stat(out.Path)
		require.NoError(t, err)
		assert.NotZero(t, info.Mode()&os.ModeDevice)
		assert.Equal(t, m.BlockPath(), out.Path)
	}
	for range 2 {
		require.NoError(t, w.plugin.UnmapBlock(t.Context(), volumemanager.Unmount{Place: m.Place, Spec: m.Spec}))
		assert.NoFileExists(t, m.BlockPath())
	}
	entries, err := os.ReadDir(m.StateDir())
	require.NoError(t, err)
	require.Empty(t, entries, "the folder is the manager's to remove")
	require.NoError(t, w.plugin.UnmountDevice(t.Context(), w.device(m.Spec)))
}

func TestHostileVolumes(t *testing.T) {
	w := newWorld(t, csitest.Options{}, csi.Options{})
	for _, edit := range []func(*v1.CSIPersistentVolumeSource){
		func(s *v1.CSIPersistentVolumeSource) { s.Driver = "../../../etc" },
		func(s *v1.CSIPersistentVolumeSource) { s.Driver = "" },
		func(s *v1.CSIPersistentVolumeSource) { s.VolumeHandle = "" },
	} {
		s := pv(func(s *v1.PersistentVolumeSpec) { edit(s.CSI) })
		_, err := w.plugin.DeviceDir(w.root, s)
		require.ErrorIs(t, err, volumemanager.ErrTerminal)
		_, err = w.plugin.VolumeID(s)
		require.ErrorIs(t, err, volumemanager.ErrTerminal)
	}
	dir, err := w.plugin.DeviceDir(w.root, pv(func(s *v1.PersistentVolumeSpec) { s.CSI.VolumeHandle = "../../../etc" }))
	require.NoError(t, err)
	assert.NotContains(t, dir, "..", "a handle is anything")
	err = w.plugin.UnmountDevice(t.Context(), volumemanager.Device{Root: w.root, Spec: pv(nil), Dir: "/etc"})
	require.ErrorContains(t, err, "is not below")
	m := w.mount(pv(nil))
	m.Inner = "../../../x"
	_, err = w.plugin.SetUp(t.Context(), m)
	require.ErrorIs(t, err, volumemanager.ErrTerminal)
	require.Error(t, w.plugin.TearDown(t.Context(), volumemanager.Unmount{Place: m.Place}))
	assert.Empty(t, w.driver.Methods())
}

// TestSlowDriverIsCutOff: a call ends at the timeout with an uncertain error.
func TestSlowDriverIsCutOff(t *testing.T) {
	hang := make(chan struct{})
	w := newWorld(t, csitest.Options{Fault: func(m string, _ proto.Message) error {
		if m == "NodePublishVolume" {
			<-hang
		}
		return nil
	}}, csi.Options{})
	w.plugin.SetTimeout(200 * time.Millisecond)
	defer close(hang)
	s := pv(nil)
	require.NoError(t, w.plugin.MountDevice(t.Context(), w.device(s)))
	_, err := w.plugin.SetUp(t.Context(), w.mount(s))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, volumemanager.ErrUncertain)
	require.NoError(t, w.plugin.TearDown(t.Context(), volumemanager.Unmount{Place: w.mount(s).Place}))
	require.NoError(t, w.plugin.UnmountDevice(t.Context(), w.device(s)))
}
