// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/internal/contexttest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// Garbage is not looked for while the runtime lists nothing: an empty list would make all logs garbage.
func TestGarbageCollectNeedsAList(t *testing.T) {
	inBubble(t, func(n *node) {
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpList}, Times: 1, Err: errors.New("away")})
		err := n.manager.GarbageCollect(n.Context(), runtime.GCPolicy{}, runtime.GCQuery{})
		require.ErrorContains(n, err, "garbage collection: list pods: ")
	})
}

// places keeps the pods that events are about.
type places struct {
	mu   sync.Mutex
	pods []string
}

func (p *places) Event(object apiruntime.Object, _, reason, _ string) {
	ref := object.(*v1.ObjectReference)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pods = append(p.pods, reason+" "+ref.Namespace+"/"+ref.Name)
}

// The steps of KillPod name each container that was stopped, and the events name the pod, also if only the
// runtime knows it.
func TestKillPodOfAnOrphan(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("a", "b"))
		n.mustSync(pod)
		events := &places{}
		generator, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: "/nonexistent/logs"})
		require.NoError(n, err)
		manager, err := runtime.New(runtime.Options{Runtime: n.rt, Generator: generator, Events: events})
		require.NoError(n, err)
		r := manager.KillPod(n.Context(), runtime.KillRequest{UID: pod.UID})
		require.NoError(n, r.Err())
		var killed []string
		for _, s := range r.Steps {
			if s.Action == runtime.KillContainer {
				killed = append(killed, s.Target)
			}
		}
		assert.ElementsMatch(n, []string{"a", "b"}, killed)
		assert.Equal(n, []string{"Killing " + pod.Namespace + "/" + pod.Name, "Killing " + pod.Namespace + "/" + pod.Name}, events.pods)
	})
}

// Two pulls under way have their progress each, and a pull that waits for its turn has none.
func TestProgressOfSeveralPulls(t *testing.T) {
	inBubble(t, func(n *node) {
		n.withMeter(runtime.Options{MaxConcurrentPulls: 2}, time.Minute)
		pod := newPod(regular("a", "b", "c"))
		done := make(chan struct{})
		go func() { n.sync(pod); close(done) }()
		n.pass(10 * time.Second)
		pulling, waiting := 0, 0
		for _, p := range n.manager.Pulls(n.Context()) {
			switch {
			case p.Began.IsZero():
				waiting++
				assert.Zero(n, p.Progress)
			case assert.EqualValues(n, 10e6, p.Progress.Bytes):
				pulling++
			}
		}
		assert.Equal(n, [2]int{2, 1}, [2]int{pulling, waiting})
		<-done
	})
}

// A container in its back-off is a start that is put off.
func TestBackOffIsAStepOfTheStart(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(0, 1))
		var off []runtime.Step
		for range 10 {
			for _, s := range n.sync(pod).Steps {
				if s.Err != nil && errors.Is(s.Err, runtime.ErrCrashLoopBackOff) {
					off = append(off, s)
				}
			}
			n.pass(time.Second)
		}
		require.NotEmpty(n, off)
		assert.Equal(n, runtime.StartContainer, off[0].Action)
		assert.Equal(n, "c", off[0].Target)
	})
}

// No call leaves anything behind at its context, also not with hooks.
func TestCallsLeaveNothingAtTheContext(t *testing.T) {
	inBubble(t, func(n *node) {
		ctx := contexttest.New(n.Context())
		pod := newPod(grace(5))
		pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{
			PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"true"}}},
			PreStop:   &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"true"}}},
		}
		for range 3 {
			require.NoError(n, n.manager.SyncPod(ctx, runtime.SyncRequest{Pod: pod}).Err())
		}
		require.NoError(n, n.manager.KillPod(ctx, runtime.KillRequest{UID: pod.UID, Pod: pod}).Err())
		require.NoError(n, n.manager.RemovePod(ctx, pod.UID))
		require.NoError(n, n.manager.GarbageCollect(ctx, runtime.GCPolicy{}, runtime.GCQuery{}))
		assert.Zero(n, ctx.Waiting())
	})
}

// A sandbox that could not be stopped has no successor, also if none of its containers runs.
func TestNoNewSandboxBesideAnEmptyOneThatIsNotStopped(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 1))
		n.sync(pod)
		n.pass(2 * time.Second)
		hosted := pod.DeepCopy()
		hosted.Spec.HostNetwork = true
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStopSandbox}, Times: 1, Err: errors.New("busy")})
		require.ErrorContains(n, n.sync(hosted).Err(), "busy")
		assert.Equal(n, 1, n.world.Count(fake.Target{Op: fake.OpRunSandbox}))
	})
}

// The ends of init containers are told before their records go also in the first pass of a call.
func TestTheEndsOfInitAreToldInTheFirstPass(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(initial("i"), regular("a"))
		n.world.Script(fake.Target{Container: "i"}, fake.Exit(time.Second, 0))
		n.sync(pod)
		n.pass(2 * time.Second)
		n.mustSync(pod)
		n.world.Reboot()
		status, err := n.rt.PodStatus(n.Context(), pod.UID)
		require.NoError(n, err)
		require.NotNil(n, status.Latest("i"))
		told := 0
		r := n.manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: pod, Status: status, Progress: func(p runtime.Progress) {
			if s := p.Status.Latest("i"); s != nil && s.State == runtime.StateExited && s.ID == status.Latest("i").ID {
				told++
			}
		}})
		require.NoError(n, r.Err())
		assert.Equal(n, 1, told)
	})
}

// A runtime that lists nothing is logged when it begins, and when it is over.
func TestTrackerLogsARuntimeThatIsAway(t *testing.T) {
	inBubble(t, func(n *node) {
		core, logs := observer.New(zap.DebugLevel)
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpList}, Times: 3, Err: errors.New("away")})
		tracker, err := runtime.NewTracker(runtime.TrackerOptions{Runtime: listOnly{n.rt}, Logger: zap.New(core)})
		require.NoError(n, err)
		ctx, cancel := context.WithCancel(n.Context())
		done := make(chan error, 1)
		go func() { done <- tracker.Run(ctx) }()
		n.pass(time.Hour)
		cancel()
		require.NoError(n, <-done)
		var said []string
		for _, e := range logs.All() {
			said = append(said, e.Message)
		}
		assert.Equal(n, []string{"cannot list pods from the runtime", "the runtime lists pods again"}, said)
	})
}
