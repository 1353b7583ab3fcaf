// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// While one container is slow, a container that waits for its next try costs no look before.
func TestNoLooksBeforeTheNextTry(t *testing.T) {
	inBubble(t, func(n *node) {
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer, Container: "b"}, Times: 1, Err: errors.New("no such command")})
		_, wait := n.begin(runtime.SyncRequest{Pod: newPod(regular("a", "b"), slowHook)})
		n.pass(9 * time.Second)
		assert.LessOrEqual(n, n.world.Count(fake.Target{Op: fake.OpPodStatus}), 5)
		n.pass(2 * time.Second)
		assert.Equal(n, 2, n.started("b"), "the try that failed, and the next")
		wait()
	})
}

// Each of several failed containers is tried again at its own time, beside a slow one.
func TestNextTriesOfSeveralContainers(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("a"), slowHook)
		const failing = 8
		for i := range failing {
			name := fmt.Sprint("c", i)
			regular(name)(pod)
			n.inject(fake.Fault{
				On: fake.Target{Op: fake.OpStartContainer, Container: name}, Times: 1, Latency: time.Duration(i) * time.Second, Err: errors.New("no"),
			})
		}
		_, wait := n.begin(runtime.SyncRequest{Pod: pod})
		n.pass(9900 * time.Millisecond)
		for i := range failing {
			assert.Equal(n, 1, n.started(fmt.Sprint("c", i)))
			n.pass(200 * time.Millisecond)
			assert.Equal(n, 2, n.started(fmt.Sprint("c", i)))
			n.pass(800 * time.Millisecond)
		}
		wait()
	})
}

// deadFrom are probes that find some instances dead.
type deadFrom struct {
	runtime.Probes
	ids sync.Map
}

func (d *deadFrom) Alive(id string) (ok, known bool) {
	_, found := d.ids.Load(id)
	return !found, true
}
func (*deadFrom) Started(string) (ok, known bool) { return true, true }

// While one container is slow, others whose liveness probes fail are killed, once, and then started again with the
// addresses of the pod.
func TestDeadContainersAreReplacedBesideASlowOne(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("a", "b", "c"), slowHook, grace(5))
		others := []string{"b", "c"}
		for i, name := range others {
			c := &pod.Spec.Containers[i+1]
			c.LivenessProbe = &v1.Probe{}
			c.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
			n.world.Script(fake.Target{Container: name}, fake.Script{TermAfter: fake.Never}, fake.Script{})
		}
		var mu sync.Mutex
		addresses := map[string][]string{}
		n.restart(runtime.Options{Hooks: hookFunc(func(call runtime.HookCall) error {
			if call.Handler.Sleep != nil {
				time.Sleep(time.Minute)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			addresses[call.Container.Name] = call.PodIPs
			return nil
		})})
		probes := &deadFrom{}
		changed, wait := n.begin(runtime.SyncRequest{Pod: pod, Probes: probes})
		n.pass(time.Second)
		first := map[string]runtime.ContainerID{}
		for _, name := range others {
			first[name] = n.latest(pod, name).ID
			probes.ids.Store(first[name].String(), true)
		}
		clear(addresses)
		changed <- struct{}{}
		n.pass(time.Second)
		changed <- struct{}{} // both are being killed
		n.pass(20 * time.Second)
		for _, name := range others {
			second := n.latest(pod, name)
			assert.Equal(n, runtime.StateRunning, second.State, name)
			assert.NotEqual(n, first[name], second.ID, name)
			assert.Equal(n, 1, n.world.Count(fake.Target{Op: fake.OpStopContainer, Container: name}), name)
			assert.NotEmpty(n, addresses[name], name)
		}
		require.NoError(n, n.world.NoOverlap())
		wait()
	})
}

// While one container is slow, a sidecar that has ended is not started again: the next pass decides about it.
func TestASidecarWaitsForTheNextPass(t *testing.T) {
	inBubble(t, func(n *node) {
		always := v1.ContainerRestartPolicyAlways
		pod := newPod(initial("s"), regular("a"), slowHook)
		pod.Spec.InitContainers[0].RestartPolicy = &always
		n.world.Script(fake.Target{Container: "s"}, fake.Exit(5*time.Second, 1), fake.Script{})
		changed, wait := n.begin(runtime.SyncRequest{Pod: pod})
		n.pass(6 * time.Second)
		changed <- struct{}{}
		n.pass(50 * time.Second)
		require.Equal(n, 1, n.started("s"))
		require.NoError(n, wait().Err())
		n.mustSync(pod)
		require.Equal(n, 2, n.started("s"))
	})
}

// While one container is slow, the caller is told the steps of the sandbox and of the others.
func TestProgressHasTheStepsOfOthers(t *testing.T) {
	inBubble(t, func(n *node) {
		var last runtime.Progress
		changed, wait := n.begin(runtime.SyncRequest{Pod: newPod(regular("a", "b"), slowHook), Progress: func(p runtime.Progress) { last = p }})
		n.pass(time.Second)
		changed <- struct{}{}
		n.pass(time.Second)
		require.Equal(n, []runtime.Step{{Action: "CreatePodSandbox", Target: "default/web"}, {Action: runtime.StartContainer, Target: "b"}}, last.Done)
		require.NoError(n, wait().Err())
	})
}

// A container that has ended for good meanwhile is not looked at over and over, once the time of its next kill has come.
func TestNoLooksAtAnEndThatIsFinal(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("a", "b"), slowHook, grace(1))
		pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		pod.Spec.Containers[1].LivenessProbe = &v1.Probe{}
		probes := &deadFrom{}
		changed, wait := n.begin(runtime.SyncRequest{Pod: pod, Probes: probes})
		n.pass(time.Second)
		probes.ids.Store(n.latest(pod, "b").ID.String(), true)
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStopContainer, Container: "b"}, Err: errors.New("stuck")})
		changed <- struct{}{}
		n.pass(time.Second)
		require.NoError(n, n.world.Kill(pod.UID, "b", 0))
		before := n.world.Count(fake.Target{Op: fake.OpPodStatus})
		n.pass(50 * time.Second)
		assert.LessOrEqual(n, n.world.Count(fake.Target{Op: fake.OpPodStatus})-before, 3)
		wait()
	})
}

// deaf is a runtime whose calls go on after the end of their context.
type deaf struct{ *fake.Runtime }

func (d deaf) PodStatus(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	return d.Runtime.PodStatus(context.WithoutCancel(ctx), uid)
}

func (d deaf) StopContainer(ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
	return d.Runtime.StopContainer(context.WithoutCancel(ctx), id, grace)
}

// After the end of its context, a call that still waits for the backend reports and begins nothing.
func TestNoProgressAfterTheEndOfTheContext(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("a", "b"), grace(30))
		n.world.Script(fake.Target{Container: "a"}, fake.Script{TermAfter: fake.Never})
		n.mustSync(pod)
		generator, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: "/nonexistent/logs"})
		require.NoError(n, err)
		manager, err := runtime.New(runtime.Options{Runtime: deaf{n.rt}, Generator: generator})
		require.NoError(n, err)
		pod = pod.DeepCopy()
		pod.Spec.Containers[0].Image = "another"
		told := 0
		ctx, cancel := context.WithCancel(n.Context())
		changed, done := make(chan struct{}), make(chan runtime.Result)
		go func() {
			done <- manager.SyncPod(ctx, runtime.SyncRequest{Pod: pod, Changed: changed, Progress: func(runtime.Progress) { told++ }})
		}()
		n.pass(time.Second)
		changed <- struct{}{}
		n.pass(time.Second)
		require.NotZero(n, told)
		cancel()
		n.pass(time.Second)
		require.NoError(n, n.world.Kill(pod.UID, "b", 1))
		before := told
		changed <- struct{}{}
		n.pass(time.Second)
		require.Equal(n, before, told)
		require.ErrorIs(n, (<-done).Err(), context.Canceled)
		require.Equal(n, 1, n.started("b"))
	})
}

// hookFunc is a HookRunner.
type hookFunc func(runtime.HookCall) error

func (f hookFunc) RunHook(_ context.Context, call runtime.HookCall) error { return f(call) }

// A postStart hook is called with its pod, container, instance and addresses.
func TestStartHookKnowsItsPod(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
		var got runtime.HookCall
		n.restart(runtime.Options{Hooks: hookFunc(func(call runtime.HookCall) error {
			got = call
			return nil
		})})
		status := n.mustSync(pod)
		assert.Equal(n, runtime.HookCall{
			Pod: pod, Container: &pod.Spec.Containers[0], ID: status.Latest("c").ID, PodIPs: status.Current().IPs,
			Handler: pod.Spec.Containers[0].Lifecycle.PostStart,
		}, got)
	})
}

// The events about a pull are about its own image, also if other images are pulled at the time.
func TestProgressEventsOfSeveralPulls(t *testing.T) {
	inBubble(t, func(n *node) {
		_, events := n.withMeter(runtime.Options{MaxConcurrentPulls: 2}, 50*time.Second)
		require.NoError(n, n.sync(newPod(regular("a", "b"))).Err())
		progress := 0
		for _, line := range events.lines {
			if strings.Contains(line, "PullProgress") {
				progress++
			}
		}
		assert.Equal(n, 2, progress, "%v", events.lines)
	})
}

// A pod that was reported as removed, and is missing in the next listing, is no news.
func TestRemovedPodIsNoNews(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		n.mustSync(pod)
		tracker, err := runtime.NewTracker(runtime.TrackerOptions{Runtime: n.rt})
		require.NoError(n, err)
		require.NoError(n, tracker.Relist(n.Context()))
		tracker.Take()
		require.NoError(n, n.manager.KillPod(n.Context(), runtime.KillRequest{Pod: pod}).Err())
		require.NoError(n, n.manager.RemovePod(n.Context(), pod.UID))
		tracker.Observed(&runtime.PodStatus{UID: pod.UID})
		require.NoError(n, tracker.Relist(n.Context()))
		assert.Empty(n, tracker.Take())
	})
}
