// SPDX-License-Identifier: Apache-2.0

package volumeapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/internal/clienttest"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/volumeapi"
)

// cluster is a claim bound to a volume, a pod with the claim, and their node.
type cluster struct {
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
	node   *v1.Node
	pod    *v1.Pod
	use    v1.Volume
}

func newCluster() *cluster {
	size := func(s string) v1.ResourceList { return v1.ResourceList{v1.ResourceStorage: resource.MustParse(s)} }
	return &cluster{
		claim: &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "claim"},
			Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "pv"},
			Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, Capacity: size("1Gi")},
		},
		volume: &v1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv", Annotations: map[string]string{"pv.beta.kubernetes.io/gid": "1234"},
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
			Spec: v1.PersistentVolumeSpec{Capacity: size("2Gi"), ClaimRef: &v1.ObjectReference{Namespace: "ns", Name: "data", UID: "claim"}},
		},
		node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "a"}}},
		pod:  pod("p"),
		use: v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data", ReadOnly: true}}},
	}
}

// ephemeral makes the claim an ephemeral claim of the pod.
func (c *cluster) ephemeral() {
	c.claim.Name = "p-v"
	c.claim.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "p", UID: "p", Controller: new(true)}}
	c.use.VolumeSource = v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}
}

func (c *cluster) inZone(zones ...string) {
	c.volume.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: zones}}}}}}
}

func (c *cluster) resolve(t *testing.T) (volumemanager.Spec, error) {
	clients := clienttest.New(c.claim, c.volume, c.node).CoreV1()
	node, err := volumeapi.NewNode(volumeapi.NodeOptions{Client: volumeapi.FromCore(clients), NodeName: "n"})
	require.NoError(t, err)
	claims, err := volumeapi.NewClaims(volumeapi.ClaimsOptions{Client: volumeapi.FromCore(clients), Node: node.Get})
	require.NoError(t, err)
	return claims.Resolve(t.Context(), c.pod, c.use)
}

func TestAClaimBecomesASpec(t *testing.T) {
	c := newCluster()
	spec, err := c.resolve(t)
	require.NoError(t, err)
	assert.Equal(t, "pv", spec.InnerName())
	assert.Nil(t, spec.Volume)
	assert.True(t, spec.ReadOnly)
	assert.Equal(t, "1234", spec.GID)
	assert.Equal(t, "2Gi", spec.Size.String())
	assert.Equal(t, "1Gi", spec.Claimed.String())
	assert.Empty(t, spec.PV.ManagedFields)

	c.ephemeral()
	c.claim.Spec.VolumeMode, c.volume.Spec.VolumeMode = new(v1.PersistentVolumeBlock), new(v1.PersistentVolumeBlock)
	c.inZone("b", "a")
	spec, err = c.resolve(t)
	require.NoError(t, err)
	assert.False(t, spec.ReadOnly)
	assert.True(t, spec.Block())
}

func TestClaimsThatCannotBeUsed(t *testing.T) {
	now := metav1.Now()
	for _, tc := range []struct {
		name string
		edit func(*cluster)
		want string // "" = can
	}{
		{"no claim at all", func(c *cluster) { c.use.VolumeSource = v1.VolumeSource{} }, "it has no claim"},
		{"missing", func(c *cluster) { c.claim.Name = "other" }, "PersistentVolumeClaim ns/data: get: NotFound"},
		{"pending", func(c *cluster) { c.claim.Status.Phase = v1.ClaimPending }, `not bound: its phase is "Pending"`},
		{"lost", func(c *cluster) { c.claim.Status.Phase = v1.ClaimLost }, "not bound"},
		{"bound to nothing", func(c *cluster) { c.claim.Spec.VolumeName = "" }, "no spec.volumeName"},
		{"being deleted", func(c *cluster) {
			c.claim.DeletionTimestamp, c.claim.Finalizers = &now, []string{"x"}
		}, "being deleted"},
		{"protected", func(c *cluster) {
			c.claim.DeletionTimestamp, c.claim.Finalizers = &now, []string{"x", "kubernetes.io/pvc-protection"}
		}, ""},
		{"ephemeral of nobody", func(c *cluster) { c.ephemeral(); c.claim.OwnerReferences = nil },
			"PersistentVolumeClaim ns/p-v: it was not created for pod ns/p (pod is not owner)"},
		{"ephemeral of another", func(c *cluster) { c.ephemeral(); c.claim.OwnerReferences[0].UID = "q" }, "pod is not owner"},
		{"ephemeral, owned but not controlled", func(c *cluster) { c.ephemeral(); c.claim.OwnerReferences[0].Controller = nil }, "pod is not owner"},
		{"no volume", func(c *cluster) { c.volume.Name = "other" }, "PersistentVolume pv: get: NotFound"},
		{"volume not bound", func(c *cluster) { c.volume.Spec.ClaimRef = nil }, "no spec.claimRef"},
		{"volume of another claim", func(c *cluster) { c.volume.Spec.ClaimRef.UID = "old" }, `another claim: ns/data with UID "old"`},
		{"another mode", func(c *cluster) { c.volume.Spec.VolumeMode = new(v1.PersistentVolumeBlock) }, "volumeMode is Block, and that of the claim is Filesystem"},
		{"another zone", func(c *cluster) { c.inZone("b") }, "node affinity excludes this node"},
		{"a strange affinity", func(c *cluster) { c.inZone() }, "node affinity: nodeSelectorTerms[0]"},
		{"an empty affinity", func(c *cluster) { c.volume.Spec.NodeAffinity = &v1.VolumeNodeAffinity{} }, ""},
		{"no such node", func(c *cluster) { c.inZone("a"); c.node.Name = "m" }, "node: get: NotFound"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster()
			tc.edit(c)
			spec, err := c.resolve(t)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			assert.ErrorIs(t, err, volumemanager.ErrTransient)
			assert.Zero(t, spec)
		})
	}
}

// A hundred pods with the same claim make a single request for the claim.
func TestClaimsAreSharedByCallsThatComeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newServer(t), newCluster()
		s.break_(func(_ string, _ objects.Ref, w http.ResponseWriter, r *http.Request) bool {
			time.Sleep(time.Second)
			answers := map[string]any{"/api/v1/namespaces/ns/persistentvolumeclaims/data": c.claim, "/api/v1/persistentvolumes/pv": c.volume}
			_ = json.NewEncoder(w).Encode(answers[r.URL.Path])
			return true
		})
		claims, err := volumeapi.NewClaims(volumeapi.ClaimsOptions{Client: volumeapi.FromCore(client(t, s)), Node: func(context.Context) (*v1.Node, error) { return c.node, nil }})
		require.NoError(t, err)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				_, err := claims.Resolve(t.Context(), c.pod, c.use)
				assert.NoError(t, err)
			})
		}
		all.Wait()
		assert.Len(t, s.took(), 2)
	})
}

func TestClaimsOfAServerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newServer(t), newCluster()
		claims, err := volumeapi.NewClaims(volumeapi.ClaimsOptions{Client: volumeapi.FromCore(client(t, s)),
			Node: func(context.Context) (*v1.Node, error) { return c.node, nil }})
		require.NoError(t, err)
		resolve := func(ctx context.Context) *volumeapi.Error {
			_, err := claims.Resolve(ctx, c.pod, c.use)
			require.ErrorIs(t, err, volumemanager.ErrTransient)
			e, _ := errors.AsType[*volumeapi.Error](err)
			return e
		}
		s.kill()
		assert.Equal(t, clientkit.Unreachable, resolve(t.Context()).Reason)
		s.start()
		s.break_(func(_ string, _ objects.Ref, _ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		})
		begun := time.Now()
		assert.Equal(t, clientkit.Timeout, resolve(t.Context()).Reason)
		assert.Equal(t, volumeapi.RequestTimeout, time.Since(begun))
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		_, err = claims.Resolve(ctx, c.pod, c.use)
		require.ErrorIs(t, err, why)
		s.break_(func(_ string, _ objects.Ref, w http.ResponseWriter, _ *http.Request) bool {
			fail(w, apierrors.NewUnauthorized("no"))
			return true
		})
		assert.Equal(t, clientkit.Unauthorized, resolve(t.Context()).Reason)
		s.break_(func(_ string, _ objects.Ref, w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, "404 page not found", http.StatusNotFound)
			return true
		})
		assert.Equal(t, clientkit.BadAnswer, resolve(t.Context()).Reason)
		s.break_(func(_ string, _ objects.Ref, w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte("<html>"))
			return true
		})
		assert.Equal(t, clientkit.BadAnswer, resolve(t.Context()).Reason)
	})
}
