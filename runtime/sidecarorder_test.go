// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// started counts the starts of a container.
func (n *node) started(name string) int {
	return n.world.Count(fake.Target{Op: fake.OpStartContainer, Container: name})
}

// latestProbes has the same result for all startup probes, and no other results.
type latestProbes struct{ startup verdict }

func (p *latestProbes) Alive(string) (ok, known bool)   { return true, true }
func (p *latestProbes) Started(string) (ok, known bool) { return p.startup.answer() }

// A pod-level OOM ends all containers of a pod at once, in a sandbox that stays: the
// sidecar starts, passes its startup probe, and only then the regular container starts.
func TestAfterAnEndOfAllContainersTheSidecarComesFirst(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(sidecar("proxy"), regular("main"))
		pod.Spec.InitContainers[0].StartupProbe = &v1.Probe{}
		probes := &latestProbes{startup: success}
		sync := func() {
			require.NoError(n, n.manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: pod, Probes: probes}).Err())
		}
		sync()
		require.Equal(n, 1, n.started("main"))

		n.pass(time.Second)
		require.NoError(n, n.world.Kill(pod.UID, "proxy", 137))
		require.NoError(n, n.world.Kill(pod.UID, "main", 137))
		probes.startup = noVerdict
		sync()
		require.Equal(n, 2, n.started("proxy"))
		require.Equal(n, 1, n.started("main"), "the startup probe has no result")
		probes.startup = success
		sync()
		require.Equal(n, 2, n.started("main"))
	})
}

// An ended regular container does not run again while the starts of its sidecar fail.
func TestNoRegularContainerStartsWhileItsSidecarCannot(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(sidecar("proxy"), regular("main"))
		n.mustSync(pod)
		broken, err := n.world.Inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer, Container: "proxy"}, Err: errors.New("no")})
		require.NoError(n, err)
		require.NoError(n, n.world.Kill(pod.UID, "proxy", 137))
		require.NoError(n, n.world.Kill(pod.UID, "main", 137))
		for range 10 {
			require.Error(n, n.sync(pod).Err())
			require.Equal(n, 1, n.started("main"))
			n.pass(time.Minute)
		}
		broken.Clear()
		n.pass(5 * time.Minute)
		n.mustSync(pod)
		require.Equal(n, 2, n.started("main"))
	})
}

// If a sidecar ends while its regular container is being stopped or waits for an image, the planned
// start is held.
func TestASidecarThatEndsMeanwhileHoldsAStart(t *testing.T) {
	t.Run("a grace period", func(t *testing.T) {
		inBubble(t, func(n *node) {
			pod := newPod(sidecar("proxy"), regular("main"), grace(30))
			n.world.Script(fake.Target{Container: "main"}, fake.Script{TermAfter: 20 * time.Second}, fake.Script{})
			n.mustSync(pod)
			n.inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer, Container: "proxy"}, Err: errors.New("no")})
			pod.Spec.Containers[0].Image = "another"
			_, wait := n.begin(runtime.SyncRequest{Pod: pod})
			n.pass(10 * time.Second)
			require.NoError(n, n.world.Kill(pod.UID, "proxy", 137))
			r := wait()
			require.ErrorIs(n, r.Err(), runtime.ErrRunContainer, "the next pass tries to start the sidecar")
			require.Equal(n, 1, n.started("main"))
		})
	})
	t.Run("a grace period, and the end was for good", func(t *testing.T) {
		inBubble(t, func(n *node) {
			pod := newPod(sidecar("proxy"), regular("main"), grace(30))
			pod.Spec.RestartPolicy = v1.RestartPolicyNever
			n.world.Script(fake.Target{Container: "main"}, fake.Script{TermAfter: 20 * time.Second}, fake.Script{})
			n.mustSync(pod)
			pod.Spec.Containers[0].Image = "another"
			_, wait := n.begin(runtime.SyncRequest{Pod: pod})
			n.pass(10 * time.Second)
			require.NoError(n, n.world.Kill(pod.UID, "proxy", 137))
			require.NoError(n, wait().Err())
			require.Equal(n, 2, n.started("main"), "else the pod would be over")
		})
	})
	t.Run("a pull", func(t *testing.T) {
		inBubble(t, func(n *node) {
			n.withImages(runtime.Options{})
			pod := newPod(sidecar("proxy"), regular("main"))
			pod.Spec.Containers[0].Image = "large"
			n.inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer, Container: "proxy"}, Nth: 2, Err: errors.New("no")})
			_, wait := n.begin(runtime.SyncRequest{Pod: pod})
			n.pass(1500 * time.Millisecond) // the sidecar runs, the other image comes
			require.Equal(n, 1, n.started("proxy"))
			require.NoError(n, n.world.Kill(pod.UID, "proxy", 137))
			require.ErrorIs(n, wait().Err(), runtime.ErrRunContainer)
			require.Zero(n, n.started("main"))
		})
	})
}

// In a burst of pods sandboxes take seconds. A pod without sidecars is not read again for that, and the
// addresses of the sandbox are read only if the pod uses them.
func TestASlowSandboxNeedsNoFreshLookWithoutSidecars(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*v1.Container)
		want int
	}{
		"after the pass": {func(*v1.Container) {}, 1},
		"a variable has the address": {func(c *v1.Container) {
			c.Env = []v1.EnvVar{{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"}}}}
		}, 2},
		"a hook may use the address": {func(c *v1.Container) {
			c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 1}}}
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(n *node) {
				_, err := n.world.Inject(fake.Fault{On: fake.Target{Op: fake.OpRunSandbox}, Latency: 3 * time.Second})
				require.NoError(n, err)
				pod := newPod(regular("main"))
				c.edit(&pod.Spec.Containers[0])
				status, err := n.rt.PodStatus(n.Context(), pod.UID)
				require.NoError(n, err)
				before := n.world.Count(fake.Target{Op: fake.OpPodStatus})
				require.NoError(n, n.manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: pod, Status: status}).Err())
				require.Equal(n, 1, n.started("main"))
				after := n.world.Count(fake.Target{Op: fake.OpPodStatus})
				require.Equal(n, c.want, after-before)
			})
		})
	}
}
