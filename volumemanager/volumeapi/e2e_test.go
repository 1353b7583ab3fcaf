// SPDX-License-Identifier: Apache-2.0

package volumeapi_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/keelson-dev/keelson/internal/apiservertest"
	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
	"github.com/keelson-dev/keelson/volumemanager/volumeapi"
)

// kubeAPIServer is a real kube-apiserver with its etcd, for the tests with the prefix TestE2E.
var kubeAPIServer apiservertest.Shared

var e2eNodes atomic.Int64

func TestMain(m *testing.M) { os.Exit(kubeAPIServer.Main(m)) }

// e2eNode is a node of a real server and an Objects with the node's rights.
type e2eNode struct {
	testing.TB
	server  *apiservertest.Server
	name    string // of the node and the namespace
	admin   *corev1.CoreV1Client
	client  *corev1.CoreV1Client // with the node's rights
	objects *volumeapi.Objects

	mu      sync.Mutex
	changes int
	changed chan struct{} // buffered for a single change
	told    []string
}

// newE2ENode creates a node with the prefix name; the node stays in the server for other runs of
// the test.
func newE2ENode(t testing.TB, name string) *e2eNode {
	name = fmt.Sprintf("%s-%d", name, e2eNodes.Add(1))
	n := &e2eNode{TB: t, server: kubeAPIServer.Get(t), name: name, changed: make(chan struct{}, 1)}
	var err error
	_, err = n.server.CreateNode(t.Context(), name)
	require.NoError(t, err)
	require.NoError(t, n.server.CreateNamespace(t.Context(), name))
	n.admin, err = n.server.Core()
	require.NoError(t, err)
	n.client, err = corev1.NewForConfig(n.server.NodeConfig(name))
	require.NoError(t, err)
	n.objects, err = volumeapi.NewObjects(volumeapi.ObjectsOptions{Client: volumeapi.FromCore(n.client), Changed: n.note, Logger: logger(n.problem)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.objects.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(30 * time.Second):
			t.Error("Run does not end")
		}
	})
	return n
}

func (n *e2eNode) note(objects.Ref) {
	n.mu.Lock()
	n.changes++
	n.mu.Unlock()
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

func (n *e2eNode) problem(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = append(n.told, fmt.Sprint(err))
}

// await waits for a condition that comes true with a change.
func (n *e2eNode) await(what string, ok func() bool) {
	n.Helper()
	deadline := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-n.changed:
		case <-deadline:
			n.mu.Lock()
			defer n.mu.Unlock()
			require.Fail(n, "waited in vain for "+what, "%v, told: %v", n.objects.Snapshot(), n.told)
		}
	}
}

func (n *e2eNode) set(name, value string) {
	n.Helper()
	cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": value}}
	_, err := n.admin.ConfigMaps(n.name).Update(n.Context(), cm, metav1.UpdateOptions{})
	if err != nil {
		_, err = n.admin.ConfigMaps(n.name).Create(n.Context(), cm, metav1.CreateOptions{})
	}
	require.NoError(n, err)
}

func (n *e2eNode) value(name string) string {
	n.Helper()
	cm, err := n.objects.ConfigMap(n.Context(), n.name, name)
	if err != nil {
		return err.Error()
	}
	return cm.Data["k"]
}

func (n *e2eNode) is(name, value string) func() bool {
	return func() bool { return n.value(name) == value }
}

// bind makes the server bind a pod to the node.
func (n *e2eNode) bind(name string, edit func(*v1.Pod)) *v1.Pod {
	n.Helper()
	p := apiservertest.Pod(n.name, name, n.name)
	edit(p)
	pods, err := n.server.CreatePods(n.Context(), p)
	require.NoError(n, err)
	return pods[0]
}

// A pod is registered the moment it is created. The Node authorizer knows the pod later; no call
// fails for this reason.
func TestE2EObjectsWithANodesRights(t *testing.T) {
	n := newE2ENode(t, "rights")
	n.set("a", "1")
	_, err := n.admin.Secrets(n.name).Create(t.Context(), &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": []byte("1")}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = n.admin.Secrets(n.name).Create(t.Context(), &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	p := n.bind("p", func(p *v1.Pod) { p.Spec.Volumes = withSecret(pod("", "a", "late"), "s").Spec.Volumes })
	n.objects.Register(p)
	assert.Equal(t, "1", n.value("a"))
	s, err := n.objects.Secret(t.Context(), n.name, "s")
	require.NoError(t, err)
	assert.Equal(t, "1", string(s.Data["k"]))
	assert.Equal(t, `configmaps "late" not found`, n.value("late"))

	n.set("a", "2")
	n.await("the change", n.is("a", "2"))
	n.set("late", "1")
	n.await("the new object", n.is("late", "1"))
	require.NoError(t, n.admin.ConfigMaps(n.name).Delete(t.Context(), "a", metav1.DeleteOptions{}))
	n.await("the end", n.is("a", `configmaps "a" not found`))

	_, err = n.objects.Secret(t.Context(), n.name, "foreign")
	var e *volumeapi.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, clientkit.Forbidden, e.Reason)
	n.mu.Lock()
	defer n.mu.Unlock()
	assert.Empty(t, n.told)
}

// A pod gets the content written before its registration, although the server's cache lags behind.
func TestE2EANewPodSeesWhatWasWrittenBefore(t *testing.T) {
	n := newE2ENode(t, "fresh")
	n.set("a", "0")
	p := n.bind("p", func(p *v1.Pod) { p.Spec.Volumes = pod("", "a").Spec.Volumes })
	for i := range 30 {
		value := fmt.Sprint(i)
		n.set("a", value)
		n.objects.Register(p)
		require.Equal(t, value, n.value("a"))
		n.objects.Unregister(p.UID)
	}
}

func TestE2EServerIsKilledCompactedAndRestarted(t *testing.T) {
	n := newE2ENode(t, "killed")
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprint("c", i))
		n.set(names[i], "1")
	}
	n.objects.Register(n.bind("p", func(p *v1.Pod) { p.Spec.Volumes = pod("", names...).Spec.Volumes }))
	for _, name := range names {
		require.Equal(t, "1", n.value(name))
	}
	require.NoError(t, n.server.Kill())
	assert.Equal(t, "1", n.value("c0"))
	require.NoError(t, n.server.Compact(t.Context()))
	require.NoError(t, n.server.Restart(t.Context()))
	n.set("c0", "2")
	n.set("c29", "2")
	n.await("the first", n.is("c0", "2"))
	n.await("the last", n.is("c29", "2"))
	n.set("c7", "3")
	n.await("another", n.is("c7", "3"))
	n.mu.Lock()
	defer n.mu.Unlock()
	assert.LessOrEqual(t, n.changes, 3, "each change once, and no word of the others")
}

func TestE2EClaimsTokensAndAttachedVolumes(t *testing.T) {
	n := newE2ENode(t, "claims")
	node, err := volumeapi.NewNode(volumeapi.NodeOptions{Client: volumeapi.FromCore(n.client), NodeName: types.NodeName(n.name)})
	require.NoError(t, err)
	claims, err := volumeapi.NewClaims(volumeapi.ClaimsOptions{Client: volumeapi.FromCore(n.client), Node: node.Get})
	require.NoError(t, err)
	tokens, err := volumeapi.NewTokens(volumeapi.TokensOptions{Client: volumeapi.FromCore(n.client)})
	require.NoError(t, err)
	n.bound("data", "pv-"+n.name)
	_, err = n.admin.ServiceAccounts(n.name).Create(t.Context(), &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	p := n.bind("p", func(p *v1.Pod) {
		p.Spec.ServiceAccountName = "web"
		p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
			{Name: "t", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{
				ServiceAccountToken: &v1.ServiceAccountTokenProjection{Audience: "vault", Path: "token"}}}}}}} // the server requires a token
	})
	// The Node authorizer learns the objects after a delay.
	require.Eventually(t, func() bool {
		_, err := claims.Resolve(t.Context(), p, p.Spec.Volumes[0])
		return err == nil || !strings.Contains(err.Error(), string(clientkit.Forbidden))
	}, time.Minute, 20*time.Millisecond)
	spec, err := claims.Resolve(t.Context(), p, p.Spec.Volumes[0])
	require.NoError(t, err)
	assert.Equal(t, "pv-"+n.name, spec.InnerName())
	assert.Equal(t, "1Gi", spec.Claimed.String())

	token, err := tokens.Token(t.Context(), projected.TokenRequest{Namespace: n.name, ServiceAccount: "web", Pod: p.Name, PodUID: p.UID,
		Audience: "vault", ExpirationSeconds: 1200})
	require.NoError(t, err)
	assert.InDelta(t, 1200, time.Until(token.Expires).Seconds(), 60)
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token.Value, ".")[1])
	require.NoError(t, err)
	var said struct {
		Aud        []string `json:"aud"`
		Kubernetes struct {
			Pod struct{ Name, UID string } `json:"pod"`
		} `json:"kubernetes.io"`
	}
	require.NoError(t, json.Unmarshal(payload, &said))
	assert.Equal(t, []string{"vault"}, said.Aud)
	assert.Equal(t, "p", said.Kubernetes.Pod.Name)
	assert.Equal(t, string(p.UID), said.Kubernetes.Pod.UID)
	_, err = tokens.Token(t.Context(), projected.TokenRequest{Namespace: n.name, ServiceAccount: "web", Pod: p.Name, PodUID: "another", ExpirationSeconds: 1200})
	require.Error(t, err)

	object, err := n.admin.Nodes().Get(t.Context(), n.name, metav1.GetOptions{})
	require.NoError(t, err)
	object.Status.VolumesAttached = []v1.AttachedVolume{{Name: "kubernetes.io/csi/d^1", DevicePath: "/dev/sda"}}
	_, err = n.admin.Nodes().UpdateStatus(t.Context(), object, metav1.UpdateOptions{})
	require.NoError(t, err)
	attached, err := node.AttachedVolumes(t.Context())
	require.NoError(t, err)
	assert.Equal(t, map[v1.UniqueVolumeName]string{"kubernetes.io/csi/d^1": "/dev/sda"}, attached)
}

// bound creates a claim and a volume bound to each other, as a controller does, for nodes with the
// node's name as their host name.
func (n *e2eNode) bound(claimName, volumeName string) {
	n.Helper()
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	claim, err := n.admin.PersistentVolumeClaims(n.name).Create(n.Context(), &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claimName},
		Spec: v1.PersistentVolumeClaimSpec{AccessModes: modes, VolumeName: volumeName, StorageClassName: new(""),
			Resources: v1.VolumeResourceRequirements{Requests: size}}}, metav1.CreateOptions{})
	require.NoError(n, err)
	_, err = n.admin.PersistentVolumes().Create(n.Context(), &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volumeName},
		Spec: v1.PersistentVolumeSpec{Capacity: size, AccessModes: modes,
			ClaimRef:               &v1.ObjectReference{Namespace: n.name, Name: claimName, UID: claim.UID},
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/mnt/x"}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{n.name}}}}}}},
		}}, metav1.CreateOptions{})
	require.NoError(n, err)
	claim.Status.Phase, claim.Status.Capacity = v1.ClaimBound, size
	_, err = n.admin.PersistentVolumeClaims(n.name).UpdateStatus(n.Context(), claim, metav1.UpdateOptions{})
	require.NoError(n, err)
}
