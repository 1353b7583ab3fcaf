// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver && !nocsi

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storageclient "k8s.io/client-go/kubernetes/typed/storage/v1"

	"github.com/keelson-dev/keelson/internal/apiservertest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/csi/csitest"
)

const attachedVolume = v1.UniqueVolumeName("kubernetes.io/csi/" + csitest.DefaultName + "^disk-7")

// claimed creates a claim "data" bound to the driver's volume disk-7, as the controllers of a
// cluster do.
func (c *clustered) claimed() {
	c.Helper()
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	class, modes := "", []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	claims, ctx := c.core.PersistentVolumeClaims(v1.NamespaceDefault), c.Context()
	claim, err := claims.Create(ctx, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: v1.PersistentVolumeClaimSpec{VolumeName: "pv", StorageClassName: &class, AccessModes: modes,
			Resources: v1.VolumeResourceRequirements{Requests: size}},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
	_, err = c.core.PersistentVolumes().Create(ctx, &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: v1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes,
			ClaimRef: &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
				Driver: csitest.DefaultName, VolumeHandle: "disk-7"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
	claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, Capacity: size, AccessModes: modes}
	_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	require.NoError(c, err)
}

// attach does the work of the attach/detach controller and the driver's controller.
func (c *clustered) attach(storage *storageclient.StorageV1Client) {
	c.Helper()
	ctx, pv := c.Context(), "pv"
	sum := sha256.Sum256([]byte("disk-7" + csitest.DefaultName + "n"))
	a, err := storage.VolumeAttachments().Create(ctx, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "csi-" + hex.EncodeToString(sum[:])},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: csitest.DefaultName, NodeName: "n",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
	a.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"lun": "3"}}
	_, err = storage.VolumeAttachments().UpdateStatus(ctx, a, metav1.UpdateOptions{})
	require.NoError(c, err)
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumesAttached": []v1.AttachedVolume{{Name: attachedVolume}}}})
	require.NoError(c, err)
	_, err = c.core.Nodes().Patch(ctx, "n", types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	require.NoError(c, err)
}

func (c *clustered) node() *v1.Node {
	c.Helper()
	node, err := c.core.Nodes().Get(c.Context(), "n", metav1.GetOptions{})
	require.NoError(c, err)
	return node
}

// An attachable volume is mounted only after the node's status lists the attachment, and stays in
// volumesInUse until it is unmounted. The agent has only the permissions of a node.
func TestAttachedVolumeOfAnAPIServer(t *testing.T) {
	slowly(t)
	driver := newDriver(t)
	c := newClustered(t, backends["process"])
	storage, err := storageclient.NewForConfig(c.server.Config())
	require.NoError(t, err)
	yes := true
	_, err = storage.CSIDrivers().Create(t.Context(), &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: csitest.DefaultName},
		Spec: storagev1.CSIDriverSpec{AttachRequired: &yes, PodInfoOnMount: &yes,
			TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.core.ServiceAccounts(v1.NamespaceDefault).Create(t.Context(), &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	data := driver.Volume("disk-7")
	require.NoError(t, os.MkdirAll(data, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(data, "greeting"), []byte("hello\n"), 0o644))
	c.claimed()
	flags := append(c.flags, socketOf(driver)...)
	c.start(flags...)

	pod := apiservertest.Pod(v1.NamespaceDefault, "web", "n")
	pod.Spec.ServiceAccountName = "web"
	pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	pod.Spec.Containers = []v1.Container{{
		Name: "main", Image: "localhost/busybox:1", VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}},
		Command: []string{"/bin/sh", "-c", "cat data/greeting > data/copy; exec sleep 1000"},
	}}
	_, err = c.api.Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)

	t.Log("the node says what it is about to use, and waits")
	created := time.Now()
	c.eventually("the volume is in use", func() bool {
		inUse := c.node().Status.VolumesInUse
		return len(inUse) == 1 && inUse[0] == attachedVolume
	})
	t.Logf("in use %s after the pod was created", time.Since(created).Round(time.Millisecond))
	require.Equal(t, "true", c.node().Annotations["volumes.kubernetes.io/controller-managed-attach-detach"])
	time.Sleep(time.Second)
	require.Empty(t, volumeCalls(driver), "nothing is mounted that is not attached")

	t.Log("it is attached, and the pod runs with it")
	attached := time.Now()
	c.attach(storage)
	c.told("web", "runs", running)
	t.Logf("the pod runs %s after the attachment", time.Since(attached).Round(time.Millisecond))
	c.eventually("the container has written", func() bool {
		text, _ := os.ReadFile(filepath.Join(data, "copy"))
		return string(text) == "hello\n"
	})
	require.Equal(t, []string{"NodeStageVolume", "NodePublishVolume"}, volumeCalls(driver))
	calls := driver.Calls()
	published, ok := calls[slices.IndexFunc(calls, func(c csitest.Call) bool { return c.Method == "NodePublishVolume" })].Request.(*spec.NodePublishVolumeRequest)
	require.True(t, ok)
	require.Equal(t, map[string]string{"lun": "3"}, published.PublishContext)
	require.Equal(t, "web", published.VolumeContext["csi.storage.k8s.io/pod.name"])
	require.Contains(t, published.VolumeContext["csi.storage.k8s.io/serviceAccount.tokens"], `{"vault":{"token":"eyJ`)

	t.Log("the agent dies; the volume stays, in use")
	c.kill()
	c.start(flags...)
	c.waitPhase("web", v1.PodRunning)
	require.Equal(t, []v1.UniqueVolumeName{attachedVolume}, c.node().Status.VolumesInUse)
	require.NotContains(t, volumeCalls(driver), "NodeUnpublishVolume")

	t.Log("the pod is deleted, and everything is given back")
	require.NoError(t, c.api.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	c.gone("web")
	c.eventually("the volume is not in use any more", func() bool { return len(c.node().Status.VolumesInUse) == 0 })
	methods := volumeCalls(driver)
	require.Equal(t, []string{"NodeUnpublishVolume", "NodeUnstageVolume"}, methods[len(methods)-2:])
	require.FileExists(t, filepath.Join(data, "copy"))
	c.eventually("nothing is left", func() bool {
		left, _ := os.ReadDir(filepath.Join(c.root, "pods"))
		return len(left) == 0
	})
	require.NotContains(t, c.log.String(), "eyJ")
}

// volumeCalls returns the calls about volumes. NodeGetInfo is left out: it is for the CSINode
// object.
func volumeCalls(d *csitest.Driver) []string {
	return slices.DeleteFunc(d.Methods(), func(call string) bool { return call == "NodeGetInfo" })
}
