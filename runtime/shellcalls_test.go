// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"os"
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

// A listing or a watch that the end of the tracker cuts short is not logged.
func TestTrackerLogsNothingAtItsEnd(t *testing.T) {
	for _, op := range []fake.Op{fake.OpList, fake.OpWatch} {
		inBubble(t, func(n *node) {
			core, logs := observer.New(zap.DebugLevel)
			n.inject(fake.Fault{On: fake.Target{Op: op}, HangUntilCtx: true})
			tracker, err := runtime.NewTracker(runtime.TrackerOptions{Runtime: n.rt, Logger: zap.New(core)})
			require.NoError(n, err)
			ctx, cancel := context.WithCancel(n.Context())
			time.AfterFunc(time.Minute, cancel)
			require.NoError(n, tracker.Run(ctx))
			assert.Empty(n, logs.All())
		})
	}
}

// leaking is a backend with leftovers.
type leaking struct {
	*fake.Runtime
	found     []runtime.Leftover
	err       error
	collected []string
}

func (l *leaking) Leftovers(context.Context) ([]runtime.Leftover, error) { return l.found, l.err }

func (l *leaking) Collect(_ context.Context, found runtime.Leftover) error {
	l.collected = append(l.collected, found.ID)
	if found.ID == "busy" {
		return errors.New("in use")
	}
	return nil
}

// Leftovers that are provably the backend's are collected, each of them, and every failure is told.
func TestCollectLeftovers(t *testing.T) {
	require.NoError(t, runtime.CollectLeftovers(t.Context(), nil))
	l := &leaking{err: errors.New("cannot look everywhere"), found: []runtime.Leftover{
		{ID: "busy", Ours: true}, {ID: "foreign"}, {ID: "own", Ours: true},
	}}
	err := runtime.CollectLeftovers(t.Context(), l)
	require.ErrorIs(t, err, l.err)
	require.ErrorContains(t, err, "in use")
	assert.Equal(t, []string{"busy", "own"}, l.collected)
	l.err, l.found = nil, l.found[1:]
	require.NoError(t, runtime.CollectLeftovers(t.Context(), l))
}

// KillPod stops ready sandboxes only, and none after its context has ended.
func TestKillPodStopsReadySandboxes(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		n.mustSync(pod)
		ctx, cancel := context.WithCancel(n.Context())
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStopContainer}, Latency: time.Second, Times: 1})
		time.AfterFunc(500*time.Millisecond, cancel)
		require.Error(n, n.manager.KillPod(ctx, runtime.KillRequest{UID: pod.UID, Pod: pod}).Err())
		assert.Zero(n, n.world.Count(fake.Target{Op: fake.OpStopSandbox}))
		for range 2 {
			require.NoError(n, n.manager.KillPod(n.Context(), runtime.KillRequest{UID: pod.UID, Pod: pod}).Err())
			assert.Equal(n, 1, n.world.Count(fake.Target{Op: fake.OpStopSandbox}))
		}
	})
}

// A call for a container that waits for another call for it ends with its context.
func TestCallsForOneContainerEndWithTheirContext(t *testing.T) {
	cause := errors.New("the agent stops")
	for _, op := range []fake.Op{fake.OpStopContainer, fake.OpRemoveContainer} {
		inBubble(t, func(n *node) {
			pod := newPod()
			n.mustSync(pod)
			n.inject(fake.Fault{On: fake.Target{Op: op}, Latency: time.Minute, Times: 1})
			kill := func(ctx context.Context) error {
				if err := n.manager.KillPod(ctx, runtime.KillRequest{UID: pod.UID, Pod: pod}).Err(); err != nil {
					return err
				}
				return n.manager.RemovePod(ctx, pod.UID)
			}
			first := make(chan error, 1)
			go func() { first <- kill(n.Context()) }()
			n.pass(time.Second)
			ctx, cancel := context.WithCancelCause(n.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			began := time.Now()
			require.ErrorIs(n, kill(ctx), cause)
			assert.Equal(n, time.Second, time.Since(began))
			require.NoError(n, <-first)
		})
	}
}

// An ended container that cannot be removed is logged, and no pod waits for it.
func TestRemovalsThatFailAreLogged(t *testing.T) {
	inBubble(t, func(n *node) {
		core, logs := observer.New(zap.WarnLevel)
		n.restart(runtime.Options{Logger: zap.New(core)})
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(0, 1))
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpRemoveContainer}, Err: errors.New("busy")})
		for range 60 {
			n.sync(newPod())
			n.pass(time.Second)
		}
		assert.NotEmpty(n, logs.FilterMessage("could not remove an ended container").All())
	})
}

// A log folder that cannot be opened is told.
func TestGarbageCollectTellsOfALogRootThatIsNoFolder(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		file := n.logs + "/file"
		require.NoError(n, os.WriteFile(file, nil, 0o600))
		n.policy.LogRoot = file
		require.ErrorContains(n, n.collect(), "not a directory")
		n.policy.LogRoot = n.logs + "/missing"
		require.NoError(n, n.collect())
	})
}
