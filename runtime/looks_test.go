// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

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

// deadFrom are probes that find an instance dead.
type deadFrom struct {
	runtime.Probes
	id atomic.Value
}

func (d *deadFrom) Alive(id string) (ok, known bool) { return id != d.id.Load(), true }
func (*deadFrom) Started(string) (ok, known bool)    { return true, true }

// While one container is slow, another one whose liveness probe fails is killed, and then started again.
func TestADeadContainerIsReplacedBesideASlowOne(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("a", "b"), slowHook, grace(1))
		pod.Spec.Containers[1].LivenessProbe = &v1.Probe{}
		probes := &deadFrom{}
		probes.id.Store("")
		changed, wait := n.begin(runtime.SyncRequest{Pod: pod, Probes: probes})
		n.pass(time.Second)
		first := n.latest(pod, "b")
		require.Equal(n, runtime.StateRunning, first.State)
		probes.id.Store(first.ID.String())
		changed <- struct{}{}
		n.pass(20 * time.Second)
		second := n.latest(pod, "b")
		require.Equal(n, runtime.StateRunning, second.State)
		require.NotEqual(n, first.ID, second.ID)
		require.NoError(n, n.world.NoOverlap())
		wait()
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
