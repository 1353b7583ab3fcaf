// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver && !nocsi

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storageclient "k8s.io/client-go/kubernetes/typed/storage/v1"

	"github.com/keelson-dev/keelson/volumemanager/plugins/csi/csitest"
)

// The CSINode object follows the appearance and the changes of a driver, with the permissions of a
// node and within the API's rules for CSINode objects.
func TestTheCSINodeOfAnAPIServer(t *testing.T) {
	slowly(t)
	first := newDriverOf(t, csitest.Options{NodeID: "disk-host-1", MaxVolumes: 16, Topology: map[string]string{"topology.csi.example/rack": "r7"}})
	c := newClustered(t, backends["process"])
	storage, err := storageclient.NewForConfig(c.server.Config())
	require.NoError(t, err)
	hidden := first.Socket() + ".hidden"
	require.NoError(t, os.Rename(first.Socket(), hidden))
	c.start(append(c.flags, socketOf(first)...)...)

	published := func() *storagev1.CSINode {
		object, err := storage.CSINodes().Get(t.Context(), "n", metav1.GetOptions{})
		if err != nil {
			return nil
		}
		return object
	}
	c.eventually("there is an object, and no driver yet", func() bool {
		object := published()
		return object != nil && len(object.Spec.Drivers) == 0
	})
	require.Equal(t, c.node().UID, published().OwnerReferences[0].UID)
	require.NoError(t, os.Rename(hidden, first.Socket()))
	c.eventually("the driver is told of", func() bool { return len(published().Spec.Drivers) == 1 })
	require.Equal(t, storagev1.CSINodeDriver{
		Name: csitest.DefaultName, NodeID: "disk-host-1", TopologyKeys: []string{"topology.csi.example/rack"},
		Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(16))},
	}, published().Spec.Drivers[0])
	require.Equal(t, "r7", c.node().Labels["topology.csi.example/rack"])

	// Another driver of the same name has another ID for the node.
	second := newDriverOf(t, csitest.Options{NodeID: "disk-host-2"})
	require.NoError(t, os.Remove(first.Socket()))
	require.NoError(t, os.Symlink(second.Socket(), first.Socket()))
	c.eventually("the driver's entry is replaced", func() bool {
		drivers := published().Spec.Drivers
		return len(drivers) == 1 && drivers[0].NodeID == "disk-host-2" && drivers[0].Allocatable == nil
	})
	require.NotContains(t, c.log.String(), "CSINode cannot be published")
}
