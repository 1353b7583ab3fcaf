// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-dev/keelson/internal/apiproxy"
)

var shared Shared

func TestMain(m *testing.M) {
	if helper() {
		return
	}
	os.Exit(shared.Main(m))
}

// place is a namespace and a node of a test's own on a server.
type place struct {
	*Server
	core            *corev1.CoreV1Client
	namespace, node string
}

func newPlace(t *testing.T, s *Server, name string) place {
	t.Helper()
	require.NoError(t, s.CreateNamespace(t.Context(), name))
	require.NoError(t, s.CreateNamespace(t.Context(), name), "one that exists is no error")
	_, err := s.CreateNode(t.Context(), name)
	require.NoError(t, err)
	return place{s, client(t, s.Config()), name, name}
}

func client(t *testing.T, config *rest.Config) *corev1.CoreV1Client {
	t.Helper()
	core, err := corev1.NewForConfig(config)
	require.NoError(t, err)
	return core
}

// create creates a pod and returns the stored pod.
func (p place) create(t *testing.T, name string) *v1.Pod {
	t.Helper()
	pod, err := p.core.Pods(p.namespace).Create(t.Context(), Pod(p.namespace, name, p.node), metav1.CreateOptions{})
	require.NoError(t, err)
	return pod
}

// watchFrom watches the pods since a resource version, and returns the error that
// the server may answer with, at once or as an event.
func (p place) watchFrom(ctx context.Context, version string) (watch.Interface, error) {
	return p.core.Pods(p.namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: version})
}

// setRunning patches the status of a pod.
func setRunning(ctx context.Context, core *corev1.CoreV1Client, pod *v1.Pod) error {
	_, err := core.Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType,
		[]byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
	return err
}

// TestLife takes a server through a crash.
func TestLife(t *testing.T) {
	p := newPlace(t, shared.Get(t), "life")
	before := p.create(t, "p")
	events, err := p.watchFrom(t.Context(), before.ResourceVersion)
	require.NoError(t, err)
	defer events.Stop()

	require.NoError(t, p.Kill())
	require.NoError(t, p.Kill(), "it is dead already")
	assert.Zero(t, p.PID())
	_, open := <-events.ResultChan()
	assert.False(t, open, "a watch ends with the server")
	_, err = p.core.Pods(p.namespace).Get(t.Context(), "p", metav1.GetOptions{})
	assert.ErrorContains(t, err, "connection refused")
	_, err = net.Listen("tcp", p.secure.String())
	assert.ErrorContains(t, err, "in use", "the port is not for others")

	url := p.URL
	require.NoError(t, p.Restart(t.Context()))
	assert.NotZero(t, p.PID())
	assert.Equal(t, url, p.URL)
	assert.NoError(t, p.WaitReady(t.Context()))
	after, err := p.core.Pods(p.namespace).Get(t.Context(), "p", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, before, after)

	// A deletion is over at once.
	require.NoError(t, p.core.Pods(p.namespace).Delete(t.Context(), "p", metav1.DeleteOptions{}))
	_, err = p.core.Pods(p.namespace).Get(t.Context(), "p", metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
}

// TestManyPods creates and deletes as many as a node is said to have.
func TestManyPods(t *testing.T) {
	p := newPlace(t, shared.Get(t), "many")
	var pods []*v1.Pod
	for i := range 110 {
		pods = append(pods, Pod(p.namespace, fmt.Sprintf("p%d", i), p.node))
	}
	created, err := p.CreatePods(t.Context(), pods...)
	require.NoError(t, err)
	for i, pod := range created {
		assert.Equal(t, pods[i].Name, pod.Name)
		assert.NotEmpty(t, pod.UID)
	}
	_, err = p.CreatePods(t.Context(), pods[0])
	assert.True(t, apierrors.IsAlreadyExists(err), "%v", err)
	require.NoError(t, p.core.Pods(p.namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	left, err := p.core.Pods(p.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, left.Items)
}

// isGone reports whether a watch got 410, as its answer or as its first event.
func isGone(w watch.Interface, err error) bool {
	if err == nil {
		defer w.Stop()
		err = apierrors.FromObject((<-w.ResultChan()).Object)
	}
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// TestCompact checks the effect of a compaction on a client with an old resource version.
func TestCompact(t *testing.T) {
	p := newPlace(t, shared.Get(t), "compact")
	old := p.create(t, "old").ResourceVersion
	p.create(t, "new")
	before, err := p.Revision(t.Context())
	require.NoError(t, err)
	require.NoError(t, p.Kill())
	require.NoError(t, p.Compact(t.Context()))
	require.NoError(t, p.Restart(t.Context()))
	assert.True(t, isGone(p.watchFrom(t.Context(), old)))
	pods, err := p.core.Pods(p.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, pods.Items, 2)
	assert.Error(t, p.Compact(canceled(t)))
	after, err := p.Revision(t.Context())
	require.NoError(t, err)
	assert.GreaterOrEqual(t, after, before)
}

func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestNodeRights checks that a node's client has no administrator permissions.
func TestNodeRights(t *testing.T) {
	s := shared.Get(t)
	mine, theirs := newPlace(t, s, "mine"), newPlace(t, s, "theirs")
	a, b := mine.create(t, "p"), theirs.create(t, "p")
	core := client(t, s.NodeConfig(mine.node))
	_, err := core.Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + mine.node})
	require.NoError(t, err)
	assert.NoError(t, setRunning(t.Context(), core, a))
	assert.True(t, apierrors.IsForbidden(setRunning(t.Context(), core, b)))
	_, err = core.Secrets("").List(t.Context(), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), "%v", err)
	assert.NoError(t, setRunning(t.Context(), mine.core, b), "the administrator may")
}

// TestKubeconfigs checks that the files have the content of the configurations.
func TestKubeconfigs(t *testing.T) {
	p := newPlace(t, shared.Get(t), "kubeconfigs")
	pod := p.create(t, "p")
	file, err := p.WriteKubeconfig(p.NodeConfig("other"))
	require.NoError(t, err)
	for file, rights := range map[string]bool{p.Kubeconfig(): true, file: false} {
		config, err := clientcmd.BuildConfigFromFlags("", file)
		require.NoError(t, err)
		assert.Equal(t, p.URL, config.Host)
		err = setRunning(t.Context(), client(t, config), pod)
		assert.Equal(t, rights, err == nil, "%s: %v", file, err)
	}
}

// TestKubectl checks the output of kubectl.
func TestKubectl(t *testing.T) {
	p := newPlace(t, shared.Get(t), "kubectl")
	require.NoError(t, setRunning(t.Context(), p.core, p.create(t, "p")))
	out, err := p.Kubectl(t.Context(), "get", "pods", "-n", p.namespace, "--no-headers")
	require.NoError(t, err)
	assert.Regexp(t, `^p +0/1 +Running `, string(out))
	_, err = p.Kubectl(t.Context(), "get", "nonsense")
	assert.ErrorContains(t, err, "kubectl get nonsense")
	assert.ErrorContains(t, err, `the server doesn't have a resource type "nonsense"`)
}

// TestProxy goes through a proxy with all that a client of a node does.
func TestProxy(t *testing.T) {
	p := newPlace(t, shared.Get(t), "proxy")
	proxy := p.Proxy(t)
	config := p.NodeConfig(p.node)
	config.Host = proxy.URL
	file, err := p.WriteKubeconfig(config)
	require.NoError(t, err)
	config, err = clientcmd.BuildConfigFromFlags("", file)
	require.NoError(t, err)
	core := client(t, config)

	list, err := core.Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + p.node})
	require.NoError(t, err)
	events, err := core.Pods("").Watch(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + p.node, ResourceVersion: list.ResourceVersion})
	require.NoError(t, err)
	defer events.Stop()
	pod := p.create(t, "p")
	assert.Equal(t, watch.Added, (<-events.ResultChan()).Type)

	_, err = proxy.Inject(apiproxy.Rule{Match: func(r apiproxy.Request) bool { return r.Verb == "patch" }, Times: 1, Then: apiproxy.Answer, Code: 409})
	require.NoError(t, err)
	assert.True(t, apierrors.IsConflict(setRunning(t.Context(), core, pod)))
	assert.NoError(t, setRunning(t.Context(), core, pod))
	assert.Equal(t, watch.Modified, (<-events.ResultChan()).Type)
	patches := proxy.Calls(func(c apiproxy.Call) bool { return c.Subresource == "status" })
	require.Len(t, patches, 2)
	assert.Equal(t, p.namespace+"/p", patches[1].Namespace+"/"+patches[1].Name)
	assert.Equal(t, 200, patches[1].Code)

	require.NoError(t, p.Kill())
	assert.Error(t, setRunning(t.Context(), core, pod))
	require.NoError(t, p.Restart(t.Context()))
	assert.NoError(t, setRunning(t.Context(), core, pod), "the proxy finds the server again")
}

// With controllers, a Deployment gets a pod with a service account, which is bound to a node.
func TestControllers(t *testing.T) {
	s := Start(t, Options{Controllers: true})
	_, err := s.CreateNode(t.Context(), "n")
	require.NoError(t, err)
	for _, command := range []string{
		"create deployment d --image=localhost/busybox:1",
		"wait pod -l app=d --for=create --timeout=60s",
		"wait pod -l app=d --for=condition=PodScheduled --timeout=60s",
	} {
		out, err := s.Kubectl(t.Context(), strings.Fields(command)...)
		require.NoError(t, err, "%s: %s", command, out)
	}
	out, err := s.Kubectl(t.Context(), "get", "pod", "-l", "app=d", "-o", "jsonpath={.items[0].spec.nodeName} {.items[0].spec.serviceAccountName}")
	require.NoError(t, err)
	assert.Equal(t, "n default", string(out))
	require.NoError(t, s.Stop())
	assert.Error(t, s.get(t.Context(), "/readyz"))
}
