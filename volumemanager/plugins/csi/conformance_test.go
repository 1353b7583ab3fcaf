// SPDX-License-Identifier: Apache-2.0

package csi_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/csi"
	"github.com/keelson-dev/keelson/volumemanager/plugins/csi/csitest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// startDriver runs a driver until the end of the test.
func startDriver(tb testing.TB, o csitest.Options) *csitest.Driver {
	tb.Helper()
	if o.Dir == "" {
		o.Dir = tb.TempDir()
	}
	// The path of a socket must be short.
	short, err := os.MkdirTemp("", "csi")
	require.NoError(tb, err)
	o.Socket = filepath.Join(short, "csi.sock")
	d, err := csitest.New(o)
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(tb, d.Run(ctx)) })
	tb.Cleanup(func() {
		cancel()
		wg.Wait()
		assert.NoError(tb, os.RemoveAll(short))
	})
	<-d.Listening()
	return d
}

func socket(d *csitest.Driver) func(string) string {
	return func(driver string) string {
		if driver != csitest.DefaultName {
			return ""
		}
		return d.Socket()
	}
}

func plugin(tb testing.TB, d *csitest.Driver, o csi.Options) *csi.Plugin {
	tb.Helper()
	o.Socket = socket(d)
	p, err := csi.New(o)
	require.NoError(tb, err)
	return p
}

func pv(edit func(*v1.PersistentVolumeSpec)) volumemanager.Spec {
	out := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-1"},
		Spec: v1.PersistentVolumeSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
				Driver: csitest.DefaultName, VolumeHandle: "handle-1", FSType: "ext4", VolumeAttributes: map[string]string{"a": "b"},
			}},
		},
	}
	if edit != nil {
		edit(&out.Spec)
	}
	return volumemanager.Spec{PV: out}
}

func inline() volumemanager.Spec {
	return volumemanager.Spec{Volume: &v1.Volume{Name: "scratch", VolumeSource: v1.VolumeSource{
		CSI: &v1.CSIVolumeSource{Driver: csitest.DefaultName},
	}}}
}

func TestConformance(t *testing.T) {
	detected := mount.Detect()
	for _, tc := range []struct {
		name    string
		spec    volumemanager.Spec
		mounter mount.Mounter
		can     []spec.NodeServiceCapability_RPC_Type
		durable bool
	}{
		{"staged", pv(nil), detected, nil, true},
		{"not staged", pv(nil), detected, []spec.NodeServiceCapability_RPC_Type{}, true},
		{"driver that makes links", pv(nil), mount.None{}, nil, true},
		{"inline", inline(), detected, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := volumetest.Harness{Skip: map[string]string{}, Open: func(tb testing.TB, root string) volumetest.Subject {
				mounttest.Clean(tb, root)
				var broken atomic.Bool
				d := startDriver(tb, csitest.Options{
					Capabilities: tc.can, Mounter: tc.mounter,
					Fault: func(method string, _ proto.Message) error {
						if broken.Load() && method == "NodePublishVolume" {
							return status.Error(codes.Internal, "broken")
						}
						return nil
					},
				})
				precious := filepath.Join(d.Volume("handle-1"), "precious")
				require.NoError(tb, os.MkdirAll(filepath.Dir(precious), 0o755))
				require.NoError(tb, os.WriteFile(precious, []byte("data"), 0o600))
				return volumetest.Subject{
					Plugin:  func() volumemanager.Plugin { return plugin(tb, d, csi.Options{}) },
					Spec:    tc.spec,
					Durable: tc.durable,
					Outside: []string{precious},
				}
			}}
			if tc.durable {
				h.Skip["TearDownFollowsNoLink"] = "the volume is not removed"
			}
			volumetest.Run(t, h)
		})
	}
}

func TestOptions(t *testing.T) {
	_, err := csi.New(csi.Options{})
	require.ErrorContains(t, err, "Options.Socket")
	assert.Equal(t, "/x/d.example.com/csi.sock", csi.SocketsBelow("/x")("d.example.com"))
	for _, hostile := range []string{"", "..", "a/b", "/etc"} {
		assert.Empty(t, csi.SocketsBelow("/x")(hostile))
	}
}
