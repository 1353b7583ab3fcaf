// SPDX-License-Identifier: Apache-2.0

package updates_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/updates"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// bed is a node in virtual time. Containers with an image ":bad" exit after a second.
type bed struct {
	*testing.T
	root  string
	world *fake.World
	list  chan []*v1.Pod
	end   node.ShutdownPolicy

	started func() // a container
	agent   *node.Agent
	stop    func()
}

func newBed(t *testing.T) *bed {
	b := &bed{T: t, root: t.TempDir(), list: make(chan []*v1.Pod, 1), end: node.KeepPods, started: func() {}}
	world, err := fake.NewWorld(fake.WorldOptions{Behave: func(_ *v1.Pod, spec runtime.ContainerSpec) fake.Script {
		b.started()
		if strings.HasSuffix(spec.Image, ":bad") {
			return fake.Exit(time.Second, 3)
		}
		return fake.Script{}
	}})
	require.NoError(t, err)
	b.world = world
	return b
}

// start starts an agent on a machine with the boot ID.
func (b *bed) start(boot string) {
	rt, err := fake.New(fake.Options{World: b.world})
	require.NoError(b, err)
	u, err := updates.New(updates.Options{Default: updates.Transactional, Boot: boot})
	require.NoError(b, err)
	b.agent, err = node.New(node.Options{
		NodeName: "n", Root: b.root, Runtime: rt, OnShutdown: b.end, Features: u.Features,
		Sources: u.Sources(podconfig.SourceFunc("bus", func(ctx context.Context, out podconfig.Sink) error {
			for {
				select {
				case pods := <-b.list:
					if pods == nil {
						return errors.New("the bus has gone")
					}
					if err := out.Submit(ctx, podconfig.Snapshot(pods...)); err != nil {
						return err
					}
				case <-ctx.Done():
					return nil
				}
			}
		})),
	})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(b, b.agent.Run(ctx)) })
	b.stop = func() { cancel(); wg.Wait() }
}

// submit lists pods with the images, all in a group if there are several.
func (b *bed) submit(images ...string) {
	decoder := &manifest.Decoder{NodeName: "n"}
	var pods []*v1.Pod
	for i, image := range images {
		pod, err := decoder.Pod(fmt.Appendf(nil, `{apiVersion: v1, kind: Pod, metadata: {name: p%d}, spec: {containers: [{name: c, image: "%s"}]}}`, i, image),
			manifest.Origin{Location: "bus"})
		require.NoError(b, err)
		if len(images) > 1 {
			pod.Annotations[updates.AnnotationGroup] = "all"
		}
		pods = append(pods, pod)
	}
	b.list <- pods
}

// after returns the images of the ready pods and the phase of the only unit, d later.
func (b *bed) after(d time.Duration) string {
	time.Sleep(d)
	synctest.Wait()
	var images []string
	for _, pod := range b.agent.Pods() {
		if slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue }) {
			images = append(images, pod.Spec.Containers[0].Image)
		}
	}
	units, err := updates.Units(filepath.Join(b.root, "updates"))
	require.NoError(b, err)
	require.Len(b, units, 1)
	r := units[0].Record
	return strings.TrimSpace(fmt.Sprint(strings.Join(images, " "), ", ", r.Phase, " ", r.Reason))
}

// A version that runs while the machine boots is a failure. The version before comes back, also
// without the source, and the failed version is not tried again.
func TestABootWhileAVersionIsProved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.start("1")
		b.submit("web:1")
		require.Equal(t, "web:1, Steady", b.after(time.Minute))
		b.submit("web:2")
		require.Equal(t, "web:2, Proving", b.after(5*time.Second))
		b.stop()
		b.start("1") // no boot: the gate begins again
		require.Equal(t, "web:2, Proving", b.after(9*time.Second))
		b.stop()
		b.start("2")
		require.Equal(t, "web:1, Steady Rebooted", b.after(time.Minute))
		b.submit("web:2")
		require.Equal(t, "web:1, Steady Rebooted", b.after(time.Minute))
		b.submit("web:3")
		require.Equal(t, "web:3, Steady", b.after(time.Minute))
		b.stop()
	})
}

// All pods of a group change, or none of them.
func TestAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.start("1")
		b.submit("a:1", "b:1", "c:1")
		require.Equal(t, "a:1 b:1 c:1, Steady", b.after(time.Minute))
		b.submit("a:2", "b:bad", "c:2")
		require.Equal(t, "a:1 b:1 c:1, Steady Restarted", b.after(time.Minute))
		b.submit("a:2", "b:2", "c:2")
		require.Equal(t, "a:2 b:2 c:2, Steady", b.after(time.Minute))
		b.submit("a:3", "b:2")
		require.Equal(t, "a:3 b:2, Steady", b.after(time.Minute))
		b.stop()
	})
}

// A source that fails does not end the node, also with transactional updates: its pods run on, and the
// source is started again.
func TestFailedSourceIsRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.start("1")
		defer func() { b.stop() }()
		b.submit("web:1")
		time.Sleep(time.Minute)
		require.Len(t, b.agent.Pods(), 1)
		b.list <- nil // the source fails
		time.Sleep(500 * time.Millisecond)
		require.Len(t, b.agent.Pods(), 1, "the node goes on")
		b.submit("web:2")
		time.Sleep(time.Minute)
		require.Len(t, b.agent.Pods(), 1)
		require.Equal(t, "web:2", b.agent.Pods()[0].Spec.Containers[0].Image, "the source works again")
	})
}

// An agent that stops its pods at its end says nothing about the version that is being proved.
func TestTheEndOfTheAgentIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.end = node.StopPods
		b.start("1")
		b.submit("web:1")
		require.Equal(t, "web:1, Steady", b.after(time.Minute))
		b.submit("web:2")
		require.Equal(t, "web:2, Proving", b.after(5*time.Second))
		b.stop()
		require.Equal(t, ", Proving", b.after(0))
		b.start("1")
		require.Equal(t, "web:2, Proving", b.after(9*time.Second))
		require.Equal(t, "web:2, Steady", b.after(time.Minute))
		b.stop()
	})
}

// A pod whose manifest was removed between two agents is not started. Without a list of the source, the
// pod runs again.
func TestRemovedBetweenTwoAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.end = node.StopPods
		started := 0
		b.started = func() { started++ }
		b.start("1")
		b.submit("web:1")
		require.Equal(t, "web:1, Steady", b.after(time.Minute))
		b.stop()
		b.start("1")
		require.Equal(t, "web:1, Steady", b.after(time.Minute), "the source is away")
		require.Equal(t, 2, started)
		b.stop()
		b.list <- []*v1.Pod{}
		b.start("1")
		time.Sleep(time.Minute)
		require.Empty(t, b.agent.Pods())
		removed, err := filepath.Glob(filepath.Join(b.root, "updates", ".removed-*"))
		require.NoError(t, err)
		require.Empty(t, removed, "the files of the unit are deleted while its agent runs")
		b.stop()
		require.Equal(t, 2, started, "the manifest was removed before the start")
	})
}
