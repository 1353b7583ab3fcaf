// SPDX-License-Identifier: Apache-2.0

package csi_test

import (
	"context"
	"errors"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/csi"
	"github.com/keelson-dev/keelson/volumemanager/plugins/csi/csitest"
)

// TestTokensInSecrets: CSIDriver.spec.serviceAccountTokenInSecrets keeps tokens out of drivers'
// logs.
func TestTokensInSecrets(t *testing.T) {
	yes := true
	o := withDriver(storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}}, ServiceAccountTokenInSecrets: &yes})
	o.Tokens = tokens{}
	w := newWorld(t, csitest.Options{}, o)
	_, err := w.up(w.mount(pv(nil)))
	require.NoError(t, err)
	r := last[*spec.NodePublishVolumeRequest](w, "NodePublishVolume")
	assert.NotContains(t, r.GetVolumeContext(), "csi.storage.k8s.io/serviceAccount.tokens")
	assert.Contains(t, r.GetSecrets()["csi.storage.k8s.io/serviceAccount.tokens"], "token of pod for vault")
}

// TestTokensReachNoError: errors contain neither the JSON text of all tokens nor a single token.
func TestTokensReachNoError(t *testing.T) {
	for _, inSecrets := range []bool{false, true} {
		o := withDriver(storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}}, ServiceAccountTokenInSecrets: &inSecrets})
		o.Tokens = tokens{}
		echo := func(method string, r proto.Message) error {
			p, ok := r.(*spec.NodePublishVolumeRequest)
			if !ok {
				return nil
			}
			text := p.GetVolumeContext()["csi.storage.k8s.io/serviceAccount.tokens"] + p.GetSecrets()["csi.storage.k8s.io/serviceAccount.tokens"]
			return status.Error(codes.Internal, "cannot use "+text+", that is token of pod for vault")
		}
		w := newWorld(t, csitest.Options{Fault: echo}, o)
		_, err := w.up(w.mount(pv(nil)))
		require.ErrorContains(t, err, "cannot use")
		assert.NotContains(t, err.Error(), "token of pod")
	}
}

// late is a Drivers whose CSIDriver objects are not known yet.
type late struct {
	driverObjects
	err error
}

func (l *late) Await(context.Context) error { return l.err }

// TestNothingIsDoneBeforeTheDriversObjectsAreKnown: before its CSIDriver object is known, a driver
// is not called, because the object may forbid inline volumes or require the pod's name.
func TestNothingIsDoneBeforeTheDriversObjectsAreKnown(t *testing.T) {
	yes := true
	objects := &late{driverObjects{csitest.DefaultName: &storagev1.CSIDriverSpec{PodInfoOnMount: &yes}}, errors.New("not known yet")}
	w := newWorld(t, csitest.Options{}, csi.Options{Drivers: objects})
	m := w.mount(pv(nil))
	_, err := w.plugin.SetUp(t.Context(), m)
	require.ErrorIs(t, err, volumemanager.ErrTransient)
	require.ErrorIs(t, err, objects.err)
	require.Empty(t, w.driver.Methods())
	require.NoDirExists(t, m.Dir())

	objects.err = nil
	_, err = w.up(m)
	require.NoError(t, err)
	assert.Equal(t, "pod", last[*spec.NodePublishVolumeRequest](w, "NodePublishVolume").GetVolumeContext()["csi.storage.k8s.io/pod.name"])
	objects.err = errors.New("away")
	m.Reconstructed = true
	_, err = w.plugin.SetUp(t.Context(), m)
	require.NoError(t, err, "what is published needs nobody")
}
