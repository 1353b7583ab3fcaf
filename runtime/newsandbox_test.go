// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// needsAddress makes the first container's environment need the pod's address.
func needsAddress(pod *v1.Pod) {
	pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"}}}}
}

// No container starts in a new sandbox whose address is needed and cannot be read. A pod on the
// host's network needs no address of the sandbox.
func TestNewSandboxWithoutAKnownAddress(t *testing.T) {
	for _, hostNetwork := range []bool{false, true} {
		inBubble(t, func(n *node) {
			pod := newPod(regular("c"), needsAddress)
			pod.Spec.HostNetwork, pod.Status.HostIP = hostNetwork, "192.0.2.1"
			n.inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus}, Nth: 2, Err: errors.New("away")})
			err := n.sync(pod).Err()
			if !hostNetwork {
				require.ErrorIs(n, err, runtime.ErrCreatePodSandbox)
				require.ErrorContains(n, err, "read the addresses of the new sandbox: away")
				require.Zero(n, n.started("c"))
				n.mustSync(pod)
			}
			require.Equal(n, 1, n.started("c"))
		})
	}
}

// A new sandbox that the status does not show has no addresses. The runtime decides whether a
// container can start in the sandbox.
func TestNewSandboxThatIsNotShown(t *testing.T) {
	inBubble(t, func(n *node) {
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus}, Nth: 2, Lie: fake.Omit})
		require.NoError(n, n.sync(newPod(regular("c"), needsAddress)).Err())
		require.Equal(n, 1, n.started("c"))
	})
}

// A pod that waits for its turn to make a sandbox waits no longer than its context, and nothing of
// it is made.
func TestWaitForASandboxEndsWithItsContext(t *testing.T) {
	inBubble(t, func(n *node) {
		n.restart(runtime.Options{MaxConcurrentStarts: 1})
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpRunSandbox}, Latency: 4 * time.Second, Times: 1})
		first := make(chan error, 1)
		go func() { first <- n.sync(newPod()).Err() }()
		n.pass(time.Second)
		cause := errors.New("the agent stops")
		ctx, cancel := context.WithCancelCause(n.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		pod := newPod()
		pod.Name, pod.UID = "other", "uid-other"
		began := time.Now()
		r := n.manager.SyncPod(ctx, runtime.SyncRequest{Pod: pod})
		require.ErrorIs(n, r.Err(), cause)
		assert.Equal(n, time.Second, time.Since(began))
		assert.Empty(n, r.Steps)
		require.NoError(n, <-first)
		assert.Equal(n, 1, n.world.Count(fake.Target{Op: fake.OpRunSandbox}))
	})
}

// addressed is a Generator that keeps the addresses that it is given.
type addressed struct {
	runtime.Generator
	ips [][]string
}

func (g *addressed) Container(ctx context.Context, pod *v1.Pod, ref runtime.Ref, in runtime.ContainerInput) (runtime.ContainerSpec, func(), error) {
	g.ips = append(g.ips, in.PodIPs)
	return g.Generator.Container(ctx, pod, ref, in)
}

// Every instance is made with the addresses of its own sandbox. The sandbox of a pod on the host's
// network has none.
func TestInstancesHaveTheAddressesOfTheirSandbox(t *testing.T) {
	inBubble(t, func(n *node) {
		generator, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: "/nonexistent/logs"})
		require.NoError(n, err)
		g := &addressed{Generator: generator}
		n.manager, err = runtime.New(runtime.Options{Runtime: n.rt, Generator: g, Events: n.events})
		require.NoError(n, err)
		pod := newPod()
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 1), fake.Exit(time.Second, 1), fake.Script{})
		ips := n.mustSync(pod).Current().IPs
		require.NotEmpty(n, ips)
		n.pass(2 * time.Second)
		n.mustSync(pod)
		n.pass(2 * time.Second)
		require.Equal(n, [][]string{ips, ips}, g.ips)
		pod = pod.DeepCopy()
		pod.Spec.HostNetwork = true
		n.mustSync(pod)
		require.Equal(n, [][]string{ips, ips, nil}, g.ips)
	})
}
