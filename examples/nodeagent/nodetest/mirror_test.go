// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/mirror"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// mirrorWriter writes mirror pods to a statustest.Server. There is one pod of a
// name, in the default namespace.
type mirrorWriter struct {
	server  *statustest.Server
	patcher statusmanager.Patcher
	created atomic.Int32

	mu    sync.Mutex
	known map[string]*v1.Pod
}

// of returns the mirror pod of a name, nil if there is none.
func (w *mirrorWriter) of(name string) *v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known[name]
}

func (w *mirrorWriter) notFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
}

func (w *mirrorWriter) Create(_ context.Context, p *v1.Pod, _ metav1.CreateOptions) (*v1.Pod, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.known[p.Name]; old != nil && w.server.Get(old.UID) != nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "pods"}, p.Name)
	}
	w.created.Add(1)
	p = p.DeepCopy()
	p.UID = ""
	p.Status = v1.PodStatus{Phase: v1.PodPending}
	w.known[p.Name] = w.server.Create(p)
	return w.known[p.Name], nil
}

func (w *mirrorWriter) Get(_ context.Context, name string, _ metav1.GetOptions) (*v1.Pod, error) {
	if p := w.of(name); p != nil && w.server.Get(p.UID) != nil {
		return w.server.Get(p.UID), nil
	}
	return nil, w.notFound(name)
}

func (w *mirrorWriter) Delete(ctx context.Context, name string, _ metav1.DeleteOptions) error {
	w.mu.Lock()
	p := w.known[name]
	delete(w.known, name)
	w.mu.Unlock()
	if p == nil {
		return w.notFound(name)
	}
	return w.patcher.DeletePod(ctx, statusmanager.PodRef{Namespace: p.Namespace, Name: name, UID: p.UID})
}

// withMirrors gives a node mirror pods.
func withMirrors(w *mirrorWriter) func(*nodeagent.Options) {
	return func(o *nodeagent.Options) {
		w.patcher = o.Cluster.Patcher
		o.Cluster.Mirrors = func(string) mirror.Writer { return w }
		o.Cluster.Node = func(context.Context) (*v1.Node, error) {
			return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "node-uid"}}, nil
		}
	}
}

func static(source, name string, opts ...func(*v1.Pod)) *v1.Pod {
	pod := nodetest.Pod(name, opts...)
	pod.Spec.NodeName = "node"
	pod.Annotations = map[string]string{podconfig.AnnotationSource: source, podconfig.AnnotationHash: string(pod.UID)}
	return pod
}

// A static pod is shown on the API server with its status, follows its edits, and
// goes there when it has ended here.
func TestAStaticPodIsShownOnTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		w := &mirrorWriter{server: server, known: map[string]*v1.Pod{}}
		node := nodetest.New(t, nodetest.Options{API: server, Agent: withMirrors(w)})
		node.Apply(static(podconfig.SourceFile, "web", nodetest.Container("c")))
		time.Sleep(time.Second)
		require.NotNil(t, w.of("web"))
		shown := server.Get(w.of("web").UID)
		require.Equal(t, v1.PodRunning, shown.Status.Phase)
		require.Equal(t, "c", shown.Status.ContainerStatuses[0].Name)
		require.Len(t, node.Agent.Pods(), 1, "a mirror is no pod")

		_, err := server.Delete(shown.UID) // a user: it comes back
		require.NoError(t, err)
		time.Sleep(time.Second)
		again := server.Get(w.of("web").UID)
		require.NotEqual(t, shown.UID, again.UID)
		require.Equal(t, v1.PodRunning, again.Status.Phase)

		node.RestartAgent()
		time.Sleep(time.Minute)
		require.Equal(t, again.UID, w.of("web").UID)
		node.Apply()
		time.Sleep(time.Minute)
		node.Settle()
		require.Nil(t, w.of("web"))
		require.Len(t, starts(node, "c"), 1)
		require.EqualValues(t, 2, w.created.Load())
	})
}

// Two sources have a static pod of the same name: one runs, one waits, and their
// one mirror stands still.
func TestTwoStaticPodsOfOneNameHaveOneMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		w := &mirrorWriter{server: server, known: map[string]*v1.Pod{}}
		other := static(podconfig.SourceHTTP, "web", nodetest.Container("d"))
		other.UID = "uid-other"
		other.Annotations[podconfig.AnnotationHash] = "uid-other"
		node := nodetest.New(t, nodetest.Options{API: server, Agent: func(o *nodeagent.Options) {
			withMirrors(w)(o)
			o.Sources = append(o.Sources, podconfig.SourceFunc(podconfig.SourceHTTP, func(ctx context.Context, out podconfig.Sink) error {
				if err := out.Submit(ctx, podconfig.Snapshot(other)); err != nil {
					return err
				}
				<-ctx.Done()
				return nil
			}))
		}})
		node.Apply(static(podconfig.SourceFile, "web", nodetest.Container("c")))
		time.Sleep(10 * time.Minute)
		require.LessOrEqual(t, w.created.Load(), int32(2))
	})
}

// What a source said that this agent does not have any more is nobody's.
func TestACheckpointOfASourceThatIsNotThereAnyMoreIsNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "checkpoint")
		from := podconfig.SourceHTTP
		node := nodetest.New(t, nodetest.Options{Agent: func(o *nodeagent.Options) {
			o.Checkpoint = path
			other := static(from, "pod-"+from, nodetest.Container(from))
			o.Sources = append(o.Sources, podconfig.SourceFunc(from, func(ctx context.Context, out podconfig.Sink) error {
				if err := out.Submit(ctx, podconfig.Snapshot(other)); err != nil {
					return err
				}
				<-ctx.Done()
				return nil
			}))
		}})
		time.Sleep(10 * time.Second)
		require.Len(t, starts(node, podconfig.SourceHTTP), 1)
		node.Shutdown()
		from = "bus"
		node.RestartAgent()
		time.Sleep(time.Minute)
		node.Settle()
		require.Len(t, node.Agent.Pods(), 1)
	})
}

// A seed runs while its source is silent, and ends when it comes back without it.
func TestAPodOfACheckpointEndsWhenItsSourceComesBackWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "checkpoint")
		back := make(chan []*v1.Pod, 1)
		back <- []*v1.Pod{static(podconfig.SourceHTTP, "other", nodetest.Container("d"))}
		node := nodetest.New(t, nodetest.Options{Agent: func(o *nodeagent.Options) {
			o.Checkpoint = path
			o.Sources = append(o.Sources, podconfig.SourceFunc(podconfig.SourceHTTP, func(ctx context.Context, out podconfig.Sink) error {
				for {
					select {
					case pods := <-back:
						if err := out.Submit(ctx, podconfig.Snapshot(pods...)); err != nil {
							return err
						}
					case <-ctx.Done():
						return nil
					}
				}
			}))
		}})
		time.Sleep(10 * time.Second)
		require.Len(t, starts(node, "d"), 1)
		node.Shutdown()
		node.World.Reboot()
		node.RestartAgent()
		time.Sleep(time.Minute)
		require.Len(t, starts(node, "d"), 2)
		back <- nil
		time.Sleep(time.Minute)
		node.Settle()
		require.Empty(t, node.Agent.Pods())
	})
}
