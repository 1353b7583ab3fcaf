// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// Backends that report less than they know.
type (
	// silent reports no resources, as old runtimes do.
	silent struct{ *fake.Runtime }
	// foreign reports containers as made by another agent.
	foreign struct{ *fake.Runtime }
	// both at once.
	silentForeign struct{ *fake.Runtime }
)

func (s silent) PodStatus(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	return edited(s.Runtime, ctx, uid, func(c *runtime.ContainerStatus) { c.Resources = nil })
}

func (f foreign) PodStatus(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	return edited(f.Runtime, ctx, uid, func(c *runtime.ContainerStatus) { delete(c.Annotations, runtime.AnnotationResources) })
}

func (s silentForeign) PodStatus(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	return edited(s.Runtime, ctx, uid, func(c *runtime.ContainerStatus) {
		c.Resources = nil
		delete(c.Annotations, runtime.AnnotationResources)
	})
}

func edited(rt *fake.Runtime, ctx context.Context, uid types.UID, edit func(*runtime.ContainerStatus)) (*runtime.PodStatus, error) {
	status, err := rt.PodStatus(ctx, uid)
	if err == nil {
		for i := range status.Containers {
			edit(&status.Containers[i])
		}
	}
	return status, err
}

// Actions of a new agent on containers that were resized, or not, before its start. No container is
// restarted, and a second look changes nothing.
func TestResizeSurvivesTheAgent(t *testing.T) {
	const small, large = "c cpu=100m/200m memory=1Gi/1Gi", "c cpu=200m/400m memory=2Gi/2Gi"
	for _, c := range []struct {
		name          string
		made, resized string // in the life of the first agent
		then          string // the spec that the second agent finds
		policy        string
		see           func(*fake.Runtime) runtime.Runtime
		want          []string // the second one's updates
		restart       bool
	}{
		{name: "never resized", made: small, then: small},
		// A memory request is not reported, and is set again.
		{name: "resized", made: small, resized: large, then: large, want: []string{"c cpu 200m/400m memory 2Gi/2Gi"}},
		{name: "cpu resized", made: small, resized: "c cpu=200m/400m memory=1Gi/1Gi", then: "c cpu=200m/400m memory=1Gi/1Gi"},
		{name: "resized, and back while nobody looked", made: small, resized: large, then: small,
			want: []string{"c cpu 200m/400m memory 1Gi/1Gi", "c cpu 100m/200m memory 1Gi/1Gi"}},
		{name: "a resize came while nobody looked", made: small, then: large,
			want: []string{"c cpu 100m/200m memory 2Gi/2Gi", "c cpu 200m/400m memory 2Gi/2Gi"}},
		{name: "a resize that restarts came while nobody looked", made: small, then: large, policy: " restart=memory", restart: true},
		{name: "resized, a backend that reports nothing", made: small, resized: large, then: large,
			see:  func(rt *fake.Runtime) runtime.Runtime { return silent{rt} },
			want: []string{"c cpu 100m/200m memory 2Gi/2Gi", "c cpu 200m/400m memory 2Gi/2Gi"}},
		{name: "resized but for what restarts, a backend that reports nothing", made: small, resized: "c cpu=200m/400m memory=1Gi/1Gi",
			then: "c cpu=200m/400m memory=1Gi/1Gi", policy: " restart=memory",
			see:  func(rt *fake.Runtime) runtime.Runtime { return silent{rt} },
			want: []string{"c cpu 200m/400m memory 1Gi/1Gi"}},
		{name: "made by the kubelet", made: small, then: small,
			see: func(rt *fake.Runtime) runtime.Runtime { return foreign{rt} }},
		{name: "made by the kubelet, other than wanted", made: small, then: large,
			see:  func(rt *fake.Runtime) runtime.Runtime { return foreign{rt} },
			want: []string{"c cpu 100m/200m memory 2Gi/2Gi", "c cpu 200m/400m memory 2Gi/2Gi"}},
		{name: "made by the kubelet, would restart", made: small, then: large, policy: " restart=memory",
			see:  func(rt *fake.Runtime) runtime.Runtime { return foreign{rt} },
			want: []string{"c cpu 200m/400m memory 2Gi/2Gi"}},
		{name: "made by the kubelet, nothing reported", made: small, then: small, policy: " restart=memory",
			see:  func(rt *fake.Runtime) runtime.Runtime { return silentForeign{rt} },
			want: []string{"c cpu 100m/200m memory 1Gi/1Gi"}},
		{name: "made by the kubelet without resources, nothing reported", made: "c ", then: "c ",
			see: func(rt *fake.Runtime) runtime.Runtime { return silentForeign{rt} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(n *node) {
				pod := n.resized(newPod(), c.made+c.policy)
				n.mustSync(pod)
				if c.resized != "" {
					pod = n.resized(pod, c.resized+c.policy)
					n.mustSync(pod)
				}
				before := n.latest(pod, "c").ID
				earlier := len(n.updates())

				var rt runtime.Runtime = n.rt
				if c.see != nil {
					rt = c.see(n.rt)
				}
				n.restartOver(rt)
				pod = n.resized(pod, c.then+c.policy)
				n.mustSync(pod)
				require.Equal(n, c.want, append([]string(nil), n.updates()[earlier:]...))
				require.Equal(n, c.restart, n.latest(pod, "c").ID != before)
				calls := n.world.Count(fake.Target{Op: fake.OpUpdateResources})
				require.Empty(n, n.sync(pod).Plans)
				require.Equal(n, calls, n.world.Count(fake.Target{Op: fake.OpUpdateResources}))

				// From here on the agent knows its own resizes.
				pod = n.resized(pod, "c cpu=300m/400m memory=3Gi/3Gi"+c.policy)
				n.mustSync(pod)
				require.Equal(n, "3Gi", pod.Spec.Containers[0].Resources.Limits.Memory().String())
				given, ok := n.manager.Actuated(pod.UID, n.latest(pod, "c").ID)
				require.True(n, ok)
				require.Equal(n, "3Gi", given.Limits.Memory().String())
				require.Equal(n, c.policy != "", n.latest(pod, "c").ID != before, "and restarts where it must")
				require.NoError(n, n.world.NoOverlap())
			})
		})
	}
}

// The remembered resources of a container in a crash loop do not pile up, and are never used for
// the next instance.
func TestWhatAnInstanceWasGivenGoesWithItsRecord(t *testing.T) {
	inBubble(t, func(n *node) {
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(11*time.Minute, 1))
		pod := n.resized(newPod(), "c cpu=1/1")
		seen := map[runtime.ContainerID]bool{}
		for range 6 {
			n.mustSync(pod)
			seen[n.latest(pod, "c").ID] = true
			n.pass(11 * time.Minute)
		}
		n.mustSync(pod)
		known := 0
		for id := range seen {
			if _, ok := n.manager.Actuated(pod.UID, id); ok {
				known++
			}
		}
		require.Len(n, seen, 6)
		require.LessOrEqual(n, known, 2, "as many as there are records")
	})
}

// A static pod is never resized, because its change makes another pod.
func TestStaticPodsAreNotResized(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := n.resized(newPod(func(p *v1.Pod) {
			p.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		}), "c cpu=1/1")
		n.mustSync(pod)
		require.Empty(n, n.sync(n.resized(pod, "c cpu=2/2")).Plans)
	})
}

// A pod with a resize in progress is told as such by Progress, although the resize was requested
// from an earlier agent. The resize has ended when it has succeeded.
func TestProgressTellsAResize(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := n.resized(newPod(regular("a", "b")), "a cpu=1/1")
		n.mustSync(pod)
		n.restart(runtime.Options{})
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpUpdateResources}, Times: 1, Latency: 2 * time.Second})
		pod = n.resized(pod, "a cpu=2/2")
		pod.Spec.Containers[1].Image = "another"
		pod.Spec.Containers[1].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 10}}}
		var told []string
		changed, wait := n.begin(runtime.SyncRequest{Pod: pod, Progress: func(p runtime.Progress) {
			told = append(told, fmt.Sprintf("cpu %s, resizing %t", p.Status.Latest("a").Resources.Limits.Cpu(), p.Resizing))
		}})
		for range 2 {
			n.pass(time.Second)
			changed <- struct{}{}
			n.pass(3 * time.Second)
		}
		require.NoError(n, wait().Err())
		require.Equal(n, []string{"cpu 1, resizing true", "cpu 2, resizing false"}, slices.Compact(told))
	})
}

// Before a resize, a manager tells that a running container has other resources than its spec, also
// the manager of a later agent.
func TestResizesOfRunningContainers(t *testing.T) {
	inBubble(t, func(n *node) {
		resizes := func(pod *v1.Pod) bool {
			status, err := n.rt.PodStatus(n.Context(), pod.UID)
			require.NoError(n, err)
			return n.manager.Resizes(pod, status)
		}
		pod := n.resized(newPod(sidecar("s"), regular("a", "b")), "a cpu=1/1")
		require.False(n, resizes(pod), "nothing runs")
		n.mustSync(pod)
		require.False(n, resizes(pod))
		n.restart(runtime.Options{})
		require.False(n, resizes(pod), "the values are as wanted")
		for _, want := range []string{"a cpu=2/2", "s cpu=1/1"} {
			pod = n.resized(pod, want)
			require.True(n, resizes(pod), want)
			n.mustSync(pod)
			require.False(n, resizes(pod), want)
		}
		static := n.resized(pod, "a cpu=3/3")
		static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		require.False(n, resizes(static), "a static pod is not resized")
		require.NoError(n, n.world.Kill(pod.UID, "a", 1))
		require.False(n, resizes(n.resized(pod, "a cpu=3/3")), "the container has ended")
	})
}

// A container that is to be restarted for its resources and cannot be stopped is still to be
// resized.
func TestAFailedKillLeavesTheResizeUnderWay(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := n.resized(newPod(), "c memory=1Gi/1Gi")
		pod.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
		n.mustSync(pod)
		pod = n.resized(pod, "c memory=2Gi/2Gi")
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStopContainer}, Times: 1, Err: errors.New("busy")})
		var resizing runtime.Resizing
		resizing.Apply(n.sync(pod))
		require.Equal(n, runtime.Resizing{UnderWay: true}, resizing)
		resizing.Apply(n.sync(pod))
		require.Equal(n, runtime.Resizing{}, resizing)
	})
}
