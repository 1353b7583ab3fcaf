// SPDX-License-Identifier: Apache-2.0

package hotplug_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/hotplug"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// bed is a node in virtual time with a pod that uses the device dev/by-id/x.
type bed struct {
	*testing.T
	dev, root string
	pod       *v1.Pod
	agent     *node.Agent
	world     *fake.World
	stop      func() // ends the agent; its pods run on
}

// play runs f on a node whose pod has the policy. It needs the right to make device nodes.
func play(t *testing.T, policy string, f func(*bed)) {
	dev := filepath.Join(t.TempDir(), "dev")
	require.NoError(t, os.MkdirAll(filepath.Join(dev, "by-id"), 0o755))
	if err := syscall.Mknod(filepath.Join(dev, "null"), syscall.S_IFCHR|0o600, 1<<8|3); err != nil {
		t.Skip("device nodes cannot be made: ", err)
	}
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		world, err := fake.NewWorld(fake.WorldOptions{})
		require.NoError(t, err)
		text := fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {%s: %s}}, spec: {containers: [{name: c, image: i, volumeMounts: [{name: d, mountPath: /dev/x}]}],
			volumes: [{name: d, hostPath: {path: %s/by-id/x, type: CharDevice}}]}}`, hotplug.Annotation, policy, dev)
		pod, err := (&manifest.Decoder{NodeName: "n"}).Pod([]byte(text), manifest.Origin{Location: "bus"})
		require.NoError(t, err)
		b := &bed{T: t, dev: dev, root: root, pod: pod, world: world}
		b.start()
		f(b)
		b.stop()
	})
}

// start starts an agent.
func (b *bed) start() {
	rt, err := fake.New(fake.Options{World: b.world})
	require.NoError(b, err)
	b.agent, err = node.New(node.Options{
		NodeName: "n", Root: b.root, Runtime: rt, OnShutdown: node.KeepPods,
		Features: func(h *feature.Host) []feature.Feature {
			return []feature.Feature{hotplug.New(h, hotplug.Options{Dir: b.dev})}
		},
		Sources: []podconfig.Source{podconfig.SourceFunc("bus", func(ctx context.Context, out podconfig.Sink) error {
			if err := out.Submit(ctx, podconfig.Snapshot(b.pod.DeepCopy())); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		})},
	})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(b, b.agent.Run(ctx)) })
	b.stop = func() {
		cancel()
		wg.Wait()
	}
}

func (b *bed) plug(minor int) {
	target := filepath.Join(b.dev, fmt.Sprint("tty", minor))
	require.NoError(b, syscall.Mknod(target, syscall.S_IFCHR|0o600, 1<<8|minor))
	require.NoError(b, os.Symlink(target, filepath.Join(b.dev, "by-id", "x")))
}

func (b *bed) unplug(minor int) {
	require.NoError(b, os.Remove(filepath.Join(b.dev, fmt.Sprint("tty", minor))))
	require.NoError(b, os.Remove(filepath.Join(b.dev, "by-id", "x")))
}

// after returns whether the container runs, and the number of its starts, d later.
func (b *bed) after(d time.Duration) string {
	time.Sleep(d)
	synctest.Wait()
	runs := "waits"
	for _, pod := range b.agent.Pods() {
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Running != nil {
				runs = "runs"
			}
		}
		if pod.Status.Phase == v1.PodFailed {
			runs = pod.Status.Message
		}
	}
	return fmt.Sprint(runs, " ", b.world.Count(fake.Target{Op: fake.OpStartContainer}))
}

func TestReplugged(t *testing.T) {
	for _, tt := range []struct{ policy, unplugged, same, other string }{
		{"Keep", "runs 1", "runs 1", "runs 2"},
		{"Stop", "waits 1", "runs 2", "runs 3"},
		{"Restart", "runs 1", "runs 2", "runs 3"},
	} {
		t.Run(tt.policy, func(t *testing.T) {
			play(t, tt.policy, func(b *bed) {
				require.Equal(b, "waits 0", b.after(time.Minute))
				b.plug(3)
				require.Equal(b, "runs 1", b.after(time.Second))
				b.unplug(3)
				require.Equal(b, tt.unplugged, b.after(time.Minute))
				b.plug(3)
				require.Equal(b, tt.same, b.after(time.Second))
				time.Sleep(2 * time.Minute)
				b.unplug(3)
				b.after(time.Minute)
				b.plug(5)
				require.Equal(b, tt.other, b.after(time.Second))
			})
		})
	}
}

// A device that is plugged in again while no agent runs counts for the next agent.
func TestReplugWithoutAnAgent(t *testing.T) {
	for _, tt := range []struct{ policy, same, other string }{
		{"Keep", "runs 1", "runs 2"},
		{"Stop", "runs 2", "runs 3"},
		{"Restart", "runs 2", "runs 3"},
	} {
		t.Run(tt.policy, func(t *testing.T) {
			play(t, tt.policy, func(b *bed) {
				b.plug(3)
				require.Equal(b, "runs 1", b.after(time.Second))
				b.stop()
				b.start()
				require.Equal(b, "runs 1", b.after(time.Minute))
				b.stop()
				b.unplug(3)
				b.plug(3)
				b.start()
				require.Equal(b, tt.same, b.after(time.Second))
				time.Sleep(2 * time.Minute)
				b.stop()
				b.unplug(3)
				b.plug(5)
				b.start()
				require.Equal(b, tt.other, b.after(time.Second))
			})
		})
	}
}

// A damaged file of the earlier agent is ignored: the containers count as started with the present
// devices.
func TestDamagedMemory(t *testing.T) {
	play(t, "Stop", func(b *bed) {
		b.plug(3)
		require.Equal(b, "runs 1", b.after(time.Second))
		b.stop()
		require.NoError(b, os.WriteFile(filepath.Join(b.root, "hotplug.json"), []byte(`{"x":`), 0o600))
		b.unplug(3)
		b.plug(5)
		b.start()
		require.Equal(b, "runs 1", b.after(time.Minute))
		b.unplug(5)
		require.Equal(b, "waits 1", b.after(time.Second))
	})
}

func TestRefusedPolicy(t *testing.T) {
	play(t, "Sometimes", func(b *bed) {
		require.Contains(b, b.after(time.Second), `metadata.annotations[keelson.dev/unplugged] ("Sometimes": want Keep, Stop or Restart)`)
	})
}

// A link out of the folder, and to a regular file, counts as missing.
func TestWrongLinks(t *testing.T) {
	play(t, "Stop", func(b *bed) {
		link := filepath.Join(b.dev, "by-id", "x")
		require.NoError(b, os.Symlink("/dev/null", link))
		require.Equal(b, "waits 0", b.after(time.Minute))
		require.NoError(b, os.Remove(link))
		file := filepath.Join(b.dev, "file")
		require.NoError(b, os.WriteFile(file, nil, 0o600))
		require.NoError(b, os.Symlink(file, link))
		require.Equal(b, "waits 0", b.after(time.Minute))
		require.NoError(b, os.Remove(link))
		b.plug(3)
		require.Equal(b, "runs 1", b.after(time.Second))
	})
}
