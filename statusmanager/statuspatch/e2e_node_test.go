// SPDX-License-Identifier: Apache-2.0

package statuspatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"

	"github.com/keelson-dev/keelson/internal/apiproxy"
	"github.com/keelson-dev/keelson/internal/apiservertest"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statuspatch"
)

var server apiservertest.Shared

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

// e2eNode is a manager with the permissions of a kubelet, behind a proxy, with a watch on its pods, and an
// administrator's client beside the manager.
type e2eNode struct {
	*statusmanager.Manager
	t      *testing.T
	server *apiservertest.Server
	proxy  *apiproxy.Proxy
	admin  *corev1.CoreV1Client
	name   string // of the node and of the namespace

	mu       sync.Mutex
	statuses map[types.UID]int // statuses different from the previous status
	writes   map[types.UID]int // that changed the object
}

func newE2ENode(t *testing.T, name string) *e2eNode {
	s := server.Get(t)
	require.NoError(t, s.CreateNamespace(t.Context(), name))
	_, err := s.CreateNode(t.Context(), name)
	require.NoError(t, err)
	n := &e2eNode{t: t, server: s, proxy: s.Proxy(t), name: name, statuses: map[types.UID]int{}, writes: map[types.UID]int{}}
	n.admin, err = s.Core()
	require.NoError(t, err)
	config := s.NodeConfig(name)
	config.Host, config.QPS = n.proxy.URL, -1
	patcher, err := statuspatch.New(statuspatch.Options{Config: config})
	require.NoError(t, err)
	n.Manager, err = statusmanager.New(statusmanager.Options{
		Patcher: patcher,
		OnChange: func(c statusmanager.Change) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.statuses[c.Pod.UID]++
		},
	})
	require.NoError(t, err)
	core, err := corev1.NewForConfig(config)
	require.NoError(t, err)
	n.background(func(ctx context.Context) { require.NoError(t, n.Run(ctx)) })
	n.background(func(ctx context.Context) { n.feed(ctx, core) })
	return n
}

// background runs f until the test ends.
func (n *e2eNode) background(f func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	n.t.Cleanup(func() {
		cancel()
		<-done
	})
}

// feed is client-go's informer.
func (n *e2eNode) feed(ctx context.Context, core *corev1.CoreV1Client) {
	selector := fields.OneTermEqualSelector("spec.nodeName", n.name)
	tell := func(object any) {
		if pod, ok := object.(*v1.Pod); ok {
			n.Observed(pod)
		}
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(core.RESTClient(), "pods", metav1.NamespaceAll, selector),
		ObjectType:    &v1.Pod{},
		Handler:       cache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: func(_, object any) { tell(object) }},
	})
	informer.RunWithContext(ctx)
}

// countWrites counts the events of pods from version on, over restarts of the server.
func (n *e2eNode) countWrites(version string) {
	selector := fields.OneTermEqualSelector("spec.nodeName", n.name).String()
	w := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.FieldSelector = selector
		return n.admin.Pods(n.name).Watch(ctx, o)
	}}
	n.background(func(ctx context.Context) {
		watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, version, w)
		if err != nil {
			n.t.Error(err)
			return
		}
		for event := range watcher.ResultChan() {
			if pod, ok := event.Object.(*v1.Pod); ok && event.Type == watch.Modified {
				n.mu.Lock()
				n.writes[pod.UID]++
				n.mu.Unlock()
			}
		}
	})
}

// create creates pods with a grace period, so that they stay until their node deletes them.
func (n *e2eNode) create(prefix string, count int) []*v1.Pod {
	n.t.Helper()
	pods := make([]*v1.Pod, count)
	for i := range pods {
		pods[i] = apiservertest.Pod(n.name, fmt.Sprintf("%s-%03d", prefix, i), n.name)
		pods[i].Spec.TerminationGracePeriodSeconds = new(int64(30))
	}
	created, err := n.server.CreatePods(n.t.Context(), pods...)
	require.NoError(n.t, err)
	return created
}

func (n *e2eNode) set(pod *v1.Pod, s v1.PodStatus) {
	n.t.Helper()
	_, err := n.SetPodStatus(pod, s)
	require.NoError(n.t, err)
}

// synced waits until the manager reports that the server has every status.
func (n *e2eNode) synced(pods []*v1.Pod, within time.Duration) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), within)
	defer cancel()
	for _, pod := range pods {
		require.NoError(n.t, n.WaitSynced(ctx, pod.UID), "%+v", n.Stats())
	}
}

// requireSame checks that the server's status equals the manager's status for every existing pod, and returns the
// number of existing pods.
func (n *e2eNode) requireSame(pods []*v1.Pod) int {
	n.t.Helper()
	list, err := n.admin.Pods(n.name).List(n.t.Context(), metav1.ListOptions{})
	require.NoError(n.t, err)
	there := map[types.UID]*v1.Pod{}
	for i := range list.Items {
		there[list.Items[i].UID] = &list.Items[i]
	}
	for _, pod := range pods {
		api, ok := there[pod.UID]
		if !ok {
			continue
		}
		mine, ok := n.GetPodStatus(pod.UID)
		require.True(n.t, ok)
		theirs := api.Status
		statusmanager.Normalize(&pod.Spec, &theirs)
		mine.QOSClass = theirs.QOSClass // the server's
		require.True(n.t, statusmanager.Equal(&theirs, &mine), "pod %s\nthere %s\nhere  %s", pod.Name, jsonText(n.t, theirs), jsonText(n.t, mine))
	}
	return len(there)
}

// requireFewWrites checks that the number of changes of each pod is at most the number of its statuses plus the changes
// of other writers.
func (n *e2eNode) requireFewWrites(pods []*v1.Pod, others map[types.UID]int) {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, pod := range pods {
		require.LessOrEqual(n.t, n.writes[pod.UID], n.statuses[pod.UID]+others[pod.UID], pod.Name)
	}
}

func jsonText(t *testing.T, v any) string {
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

// patches reports whether a request patches a status.
func patches(r apiproxy.Request) bool { return r.Verb == "patch" && r.Subresource == "status" }

// patchesDone returns the successful patches, in the order of arrival.
func (n *e2eNode) patchesDone() []apiproxy.Call {
	return n.proxy.Calls(func(c apiproxy.Call) bool { return patches(c.Request) && c.Code == 200 })
}

// The statuses of the pods of these tests.
func runningStatus(round int, ready bool) v1.PodStatus {
	return v1.PodStatus{
		Phase: v1.PodRunning, PodIP: "10.1.2.3", PodIPs: []v1.PodIP{{IP: "10.1.2.3"}},
		HostIP: "10.0.0.1", HostIPs: []v1.HostIP{{IP: "10.0.0.1"}},
		ContainerStatuses: []v1.ContainerStatus{{
			Name: "main", Image: "localhost/busybox:1", ImageID: "sha256:1", ContainerID: "fake://main", Ready: ready, Started: new(true),
			RestartCount: int32(round), State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Unix(1_700_000_000, 0)}},
		}},
	}
}

func endedStatus(code int32) v1.PodStatus {
	phase := v1.PodSucceeded
	if code != 0 {
		phase = v1.PodFailed
	}
	s := runningStatus(0, false)
	s.Phase, s.ContainerStatuses[0].Started = phase, new(false)
	s.ContainerStatuses[0].State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		ExitCode: code, Reason: "Ended", StartedAt: metav1.Unix(1_700_000_000, 0), FinishedAt: metav1.Unix(1_700_000_060, 0),
		ContainerID: "fake://main",
	}}
	return s
}
