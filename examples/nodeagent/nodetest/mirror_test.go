// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// mirrors are the mirror pods that were ever created on a server.
func mirrors(server *statustest.Server) (made *sync.Map) {
	made = &sync.Map{}
	server.Watch(func(p *v1.Pod) {
		if podconfig.IsMirror(p) {
			made.Store(p.UID, true)
		}
	})
	return made
}

func countOf(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

// mirrorOf returns the mirror pod of a static pod.
func mirrorOf(server *statustest.Server, static *v1.Pod) *v1.Pod {
	pod, _ := server.Mirror(static.UID)
	return pod
}

func static(source, name string, opts ...func(*v1.Pod)) *v1.Pod {
	pod := nodetest.Pod(name, opts...)
	pod.Spec.NodeName = "node"
	pod.Annotations = map[string]string{podconfig.AnnotationSource: source, podconfig.AnnotationHash: string(pod.UID)}
	return pod
}

// A static pod has a mirror pod with its status. The mirror pod follows edits, and is deleted after
// the end of the pod.
func TestAStaticPodIsShownOnTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		made, pod := mirrors(server), static(podconfig.SourceFile, "web", nodetest.Container("c"))
		n := nodetest.New(t, nodetest.Options{API: server, Mirrors: true})
		n.Apply(pod)
		time.Sleep(time.Second)
		shown := mirrorOf(server, pod)
		require.NotNil(t, shown)
		require.Equal(t, v1.PodRunning, shown.Status.Phase)
		require.Equal(t, "c", shown.Status.ContainerStatuses[0].Name)
		require.Len(t, n.Agent.Pods(), 1, "a mirror is no pod")

		_, err := server.Delete(shown.UID) // a user: it comes back
		require.NoError(t, err)
		time.Sleep(time.Second)
		again := mirrorOf(server, pod)
		require.NotEqual(t, shown.UID, again.UID)
		require.Equal(t, v1.PodRunning, again.Status.Phase)

		n.RestartAgent()
		time.Sleep(time.Minute)
		require.Equal(t, again.UID, mirrorOf(server, pod).UID)
		n.Apply()
		time.Sleep(time.Minute)
		n.Settle()
		require.Nil(t, mirrorOf(server, pod))
		require.Len(t, starts(n, "c"), 1)
		require.Equal(t, 2, countOf(made))
	})
}

// A mirror pod that is deleted too often comes back at once when the budget of its requests permits.
func TestAMirrorPodComesBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, began := newServer(t), time.Now()
		pod := static(podconfig.SourceFile, "web", nodetest.Container("c"))
		n := nodetest.New(t, nodetest.Options{API: server, Mirrors: true})
		n.Apply(pod)
		time.Sleep(time.Second)
		shown := func() bool { m := mirrorOf(server, pod); return m != nil && m.DeletionTimestamp == nil }
		for range 5 {
			if shown() {
				_, err := server.Delete(mirrorOf(server, pod).UID)
				require.NoError(t, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Until(began.Add(10*time.Second - 10*time.Millisecond)))
		require.False(t, shown(), "five calls, and one per 10 s")
		time.Sleep(100 * time.Millisecond)
		require.True(t, shown())
	})
}

// Two sources have a static pod of the same name: the first runs, the second waits, and their
// mirror pod does not change.
func TestTwoStaticPodsOfOneNameHaveOneMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		made := mirrors(server)
		other := static(podconfig.SourceHTTP, "web", nodetest.Container("d"))
		other.UID = "uid-other"
		other.Annotations[podconfig.AnnotationHash] = "uid-other"
		n := nodetest.New(t, nodetest.Options{API: server, Mirrors: true, Agent: func(o *node.Options) {
			o.Sources = append(o.Sources, podconfig.SourceFunc(podconfig.SourceHTTP, func(ctx context.Context, out podconfig.Sink) error {
				if err := out.Submit(ctx, podconfig.Snapshot(other)); err != nil {
					return err
				}
				<-ctx.Done()
				return nil
			}))
		}})
		n.Apply(static(podconfig.SourceFile, "web", nodetest.Container("c")))
		time.Sleep(10 * time.Minute)
		require.LessOrEqual(t, countOf(made), 2)
	})
}

// Checkpointed pods of a source that the agent no longer has are not run.
func TestACheckpointOfASourceThatIsNotThereAnyMoreIsNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "checkpoint")
		from := podconfig.SourceHTTP
		n := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) {
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
		require.Len(t, starts(n, podconfig.SourceHTTP), 1)
		n.Shutdown()
		from = "bus"
		n.RestartAgent()
		time.Sleep(time.Minute)
		n.Settle()
		require.Len(t, n.Agent.Pods(), 1)
	})
}

// A seed runs while its source is silent, and ends when the source reports without it.
func TestAPodOfACheckpointEndsWhenItsSourceComesBackWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "checkpoint")
		back := make(chan []*v1.Pod, 1)
		back <- []*v1.Pod{static(podconfig.SourceHTTP, "other", nodetest.Container("d"))}
		n := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) {
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
		require.Len(t, starts(n, "d"), 1)
		n.Shutdown()
		n.World.Reboot()
		n.RestartAgent()
		time.Sleep(time.Minute)
		require.Len(t, starts(n, "d"), 2)
		back <- nil
		time.Sleep(time.Minute)
		n.Settle()
		require.Empty(t, n.Agent.Pods())
	})
}
