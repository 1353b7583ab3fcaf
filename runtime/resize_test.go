// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// resized is pod with other resources; see gives.
func (n *node) resized(pod *v1.Pod, lines ...string) *v1.Pod {
	n.Helper()
	pod = pod.DeepCopy()
	gives(n, pod, lines...)
	return pod
}

// updates lists the calls of UpdateResources, a call per line.
func (n *node) updates() (out []string) {
	for _, e := range n.world.Journal() {
		if e.Op == fake.OpUpdateResources {
			out = append(out, e.Container+" "+e.Detail)
		}
	}
	return out
}

func (n *node) latest(pod *v1.Pod, name string) *runtime.ContainerStatus {
	n.Helper()
	status, err := n.rt.PodStatus(n.Context(), pod.UID)
	require.NoError(n, err)
	return status.Latest(name)
}

func TestSyncPodResizesInPlace(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := n.resized(newPod(regular("a", "b")), "a cpu=100m/200m memory=1Gi/1Gi", "b cpu=200m/200m memory=2Gi/2Gi")
		n.mustSync(pod)
		require.Empty(n, n.updates(), "they were made as wanted")
		before := n.latest(pod, "a").ID

		pod = n.resized(pod, "a cpu=200m/400m memory=2Gi/2Gi", "b cpu=100m/100m memory=1Gi/1Gi")
		r := n.sync(pod)
		require.NoError(n, r.Err())
		require.Equal(n, []string{
			"b cpu 200m/200m memory 1Gi/1Gi", "a cpu 100m/200m memory 2Gi/2Gi",
			"b cpu 100m/100m memory 1Gi/1Gi", "a cpu 200m/400m memory 2Gi/2Gi",
		}, n.updates())
		require.Equal(n, []runtime.Step{{Action: runtime.ResizePodInPlace, Target: "default/web"}}, r.Steps)
		require.Equal(n, before, n.latest(pod, "a").ID, "nothing was restarted")
		require.Equal(n, "400m", r.Status.Latest("a").Resources.Limits.Cpu().String(), "the status is read afterwards")

		calls := len(n.world.Journal())
		r = n.manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: pod, Status: r.Status})
		require.Empty(n, r.Plans)
		require.Len(n, n.world.Journal(), calls, "steady again")
		given, ok := n.manager.Actuated(pod.UID, before)
		require.True(n, ok)
		require.Equal(n, "400m", given.Limits.Cpu().String())
	})
}

// A limit can be taken away in place, and be added (kubernetes#128675).
func TestUpstream128675LimitsComeAndGoInPlace(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := n.resized(newPod(), "c cpu=100m/200m memory=1Gi/2Gi")
		n.mustSync(pod)
		pod = n.resized(pod, "c cpu=100m/- memory=1Gi/-")
		n.mustSync(pod)
		require.Nil(n, n.latest(pod, "c").Resources.Limits)
		pod = n.resized(pod, "c cpu=100m/200m memory=1Gi/2Gi")
		n.mustSync(pod)
		require.Equal(n, []string{
			"c cpu 100m/200m memory 1Gi/0", "c cpu 100m/0 memory 1Gi/0", "c cpu 100m/0 memory 1Gi/2Gi", "c cpu 100m/200m memory 1Gi/2Gi",
		}, n.updates())
		require.EqualValues(n, 0, n.latest(pod, "c").RestartCount)
	})
}

func TestResizeThatWantsARestart(t *testing.T) {
	for name, see := range map[string]func(*fake.Runtime) runtime.Runtime{
		"made by this agent":    func(rt *fake.Runtime) runtime.Runtime { return rt },
		"made by another agent": func(rt *fake.Runtime) runtime.Runtime { return foreign{rt} },
	} {
		t.Run(name, func(t *testing.T) { testResizeThatWantsARestart(t, see) })
	}
}

func testResizeThatWantsARestart(t *testing.T, see func(*fake.Runtime) runtime.Runtime) {
	inBubble(t, func(n *node) {
		n.restartOver(see(n.rt))
		// After many crashes the next restart would have to wait.
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 1), fake.Exit(time.Second, 1), fake.Script{})
		pod := n.resized(newPod(grace(3)), "c cpu=100m/100m memory=1Gi/1Gi restart=memory")
		for range 3 {
			r := n.sync(pod)
			if at, ok := r.RetryAt(); ok {
				time.Sleep(time.Until(at))
				require.NoError(n, n.sync(pod).Err())
			}
			n.pass(time.Second)
		}
		n.mustSync(pod)
		require.EqualValues(n, 2, n.latest(pod, "c").RestartCount)
		n.events.lines = nil

		r := n.sync(n.resized(pod, "c cpu=100m/100m memory=2Gi/2Gi restart=memory"))
		require.NoError(n, r.Err())
		require.Equal(n, runtime.KillResize, r.Plans[0].Kill[0].Reason)
		require.Empty(n, n.updates())
		st := r.Status.Latest("c")
		require.Equal(n, runtime.StateRunning, st.State, "a crash loop does not hold up what is resized")
		require.EqualValues(n, 3, st.RestartCount)
		require.JSONEq(n, `{"limits":{"cpu":"100m","memory":"2Gi"},"requests":{"cpu":"100m","memory":"2Gi"}}`, n.latest(pod, "c").Annotations[runtime.AnnotationResources])
		require.NoError(n, n.world.NoOverlap())
	})
}

// Progress tells of the resize while a container is slow to stop for it, and of no resize otherwise.
func TestProgressTellsOfAResizeThatWantsARestart(t *testing.T) {
	for cause, change := range map[string]func(*node, *v1.Pod) *v1.Pod{
		"resize": func(n *node, pod *v1.Pod) *v1.Pod {
			return n.resized(pod, "a cpu=100m/100m memory=2Gi/2Gi restart=memory")
		},
		"change": func(_ *node, pod *v1.Pod) *v1.Pod {
			pod = pod.DeepCopy()
			pod.Spec.Containers[0].Image = "another"
			return pod
		},
	} {
		t.Run(cause, func(t *testing.T) {
			inBubble(t, func(n *node) {
				n.world.Script(fake.Target{Container: "a"}, fake.Script{TermAfter: fake.Never})
				pod := n.resized(newPod(regular("a", "b"), grace(30)), "a cpu=100m/100m memory=1Gi/1Gi restart=memory")
				n.mustSync(pod)
				resizing := make(chan bool, 100)
				changed, wait := n.begin(runtime.SyncRequest{Pod: change(n, pod), Progress: func(p runtime.Progress) { resizing <- p.Resizing }})
				n.pass(time.Second)
				changed <- struct{}{}
				n.pass(time.Second)
				require.NotEmpty(n, resizing)
				for range len(resizing) {
					require.Equal(n, cause == "resize", <-resizing)
				}
				require.NoError(n, wait().Err())
			})
		})
	}
}

// More memory ends the crash loop of a container that had too little.
func TestResizeOfWhatIsInBackOff(t *testing.T) {
	inBubble(t, func(n *node) {
		n.world.Script(fake.Target{Container: "c"}, fake.OOM(time.Second))
		pod := n.resized(newPod(), "c memory=1Gi/1Gi")
		for range 2 {
			require.NoError(n, n.sync(pod).Err())
			n.pass(time.Second)
		}
		require.ErrorIs(n, n.sync(pod).Err(), runtime.ErrCrashLoopBackOff)
		require.NoError(n, n.sync(n.resized(pod, "c memory=2Gi/2Gi")).Err())
		require.Equal(n, runtime.StateRunning, n.latest(pod, "c").State)
	})
}

func TestMemoryLimitsStayAboveUsage(t *testing.T) {
	inBubble(t, func(n *node) {
		n.world.Script(fake.Target{Container: "a"}, fake.Script{Memory: 1 << 30})
		n.world.Script(fake.Target{Container: "b"}, fake.Script{Memory: 1<<30 - 1})
		pod := n.resized(newPod(regular("a", "b", "c")), "a memory=1Gi/2Gi", "b memory=1Gi/2Gi")
		n.mustSync(pod)

		r := n.sync(n.resized(pod, "a memory=1Gi/1Gi", "b memory=512Mi/512Mi"))
		require.EqualError(n, r.Err(), "ResizePodInPlace default/web: ResizePodInPlaceError: cannot decrease memory limits: "+
			"container a uses 1073741824 bytes, not less than the new limit of 1073741824; "+
			"container b uses 1073741823 bytes, not less than the new limit of 536870912")

		pod = n.resized(pod, "a memory=1Gi/1Gi", "b memory=1Gi/1Gi", "c cpu=1/1")
		r = n.sync(pod)
		require.ErrorIs(n, r.Err(), runtime.ErrResizePodInPlace)
		require.EqualError(n, r.Err(), "ResizePodInPlace default/web: ResizePodInPlaceError: cannot decrease memory limits: "+
			"container a uses 1073741824 bytes, not less than the new limit of 1073741824")
		require.Empty(n, n.updates(), "nothing is done by halves")
		_, again := r.RetryAt()
		require.True(n, again)
		require.NotNil(n, r.Status)

		var resizing runtime.Resizing
		resizing.Apply(r)
		require.True(n, resizing.UnderWay)
		require.True(n, strings.HasPrefix(resizing.Error, "cannot decrease memory limits: "), resizing.Error)

		r = n.sync(n.resized(pod, "a memory=1Gi/1025Mi"))
		require.NoError(n, r.Err())
		require.Len(n, n.updates(), 3)
		resizing.Apply(r)
		require.Equal(n, runtime.Resizing{}, resizing)
	})
}

func TestMemoryUsageThatCannotBeRead(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := n.resized(newPod(), "c memory=1Gi/2Gi")
		n.mustSync(pod)
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpMemoryUsage}, Times: 1, Err: errors.New("no stats")})
		smaller := n.resized(pod, "c memory=1Gi/1Gi")
		require.ErrorContains(n, n.sync(smaller).Err(), "cannot decrease memory limits: container c: its usage: no stats")
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpMemoryUsage}, Times: 1, Err: runtime.ErrNotFound})
		require.NoError(n, n.sync(smaller).Err(), "what is gone uses nothing")

		n.restartOver(struct {
			runtime.Runtime
			runtime.Updater
		}{n.rt, n.rt})
		require.NoError(n, n.sync(n.resized(smaller, "c memory=1Gi/3Gi")).Err(), "limits can always rise")
		require.ErrorIs(n, n.sync(smaller).Err(), runtime.ErrUnsupported)
	})
}

// restartOver makes a new manager over another view of the same world.
func (n *node) restartOver(rt runtime.Runtime) {
	n.Helper()
	generator, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: "/nonexistent/logs"})
	require.NoError(n, err)
	n.manager, err = runtime.New(runtime.Options{Runtime: rt, Generator: generator, Events: n.events})
	require.NoError(n, err)
}

func TestARuntimeThatCannotUpdateResizesNothing(t *testing.T) {
	inBubble(t, func(n *node) {
		n.restartOver(struct{ runtime.Runtime }{n.rt})
		pod := n.resized(newPod(), "c cpu=1/1 restart=cpu")
		n.mustSync(pod)
		require.Empty(n, n.sync(n.resized(pod, "c cpu=2/2 restart=cpu")).Plans)
		_, ok := n.manager.Actuated(pod.UID, n.latest(pod, "c").ID)
		require.False(n, ok)
		require.NoError(n, n.manager.KillPod(n.Context(), runtime.KillRequest{Pod: pod}).Err())
		require.NoError(n, n.manager.RemovePod(n.Context(), pod.UID))
	})
}

// A resize that fails stops nothing else, and is tried again by the next call.
func TestAFailedResizeHoldsUpNothing(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := n.resized(newPod(sidecar("s"), regular("a")), "s cpu=1/1")
		n.mustSync(pod)
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpUpdateResources}, Times: 1, Err: errors.New("busy")})
		n.world.Script(fake.Target{Container: "a"}, fake.Exit(time.Second, 0))
		pod = n.resized(pod, "s cpu=2/2")
		pod.Spec.Containers[0].Image = "img:2"
		r := n.sync(pod)
		require.ErrorIs(n, r.Err(), runtime.ErrResizePodInPlace)
		require.ErrorContains(n, r.Err(), "container s, cpu limit 1 to 2, cpu request 1 to 2: busy")
		require.Equal(n, runtime.StateRunning, r.Status.Latest("a").State)
		require.Equal(n, "img:2", r.Status.Latest("a").Image)
		require.Len(n, n.updates(), 1, "once a call")
		require.NoError(n, n.sync(pod).Err())
		require.Len(n, n.updates(), 2+1, "it is not certain what it had: both are set")
	})
}

// An update may have been done although it failed. If the resize is then taken
// back, the container is set all the same.
func TestAnUpdateWhoseReplyIsLostIsNotForgotten(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := n.resized(newPod(), "c cpu=1/1")
		n.mustSync(pod)
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpUpdateResources}, Times: 1, DoneButReplyLost: true})
		require.Error(n, n.sync(n.resized(pod, "c cpu=2/2")).Err())
		require.Equal(n, "2", n.latest(pod, "c").Resources.Limits.Cpu().String())
		n.mustSync(pod)
		require.Equal(n, "1", n.latest(pod, "c").Resources.Limits.Cpu().String())
		require.Empty(n, n.sync(pod).Plans)
	})
}

func TestAResizeEndsWithItsContext(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := n.resized(newPod(regular("a", "b")), "a cpu=1/1", "b cpu=1/1")
		n.mustSync(pod)
		pod = n.resized(pod, "a cpu=2/2", "b cpu=2/2")
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpUpdateResources}, HangUntilCtx: true, Times: 1})
		ctx, cancel := context.WithCancelCause(n.Context())
		why := errors.New("the pod was deleted")
		time.AfterFunc(time.Minute, func() { cancel(why) })
		began := time.Now()
		r := n.manager.SyncPod(ctx, runtime.SyncRequest{Pod: pod})
		require.ErrorIs(n, r.Err(), why)
		require.NotErrorIs(n, r.Err(), runtime.ErrResizePodInPlace)
		require.Equal(n, time.Minute, time.Since(began))
		require.Len(n, n.updates(), 1)
		var resizing runtime.Resizing
		resizing.Apply(r)
		require.Equal(n, runtime.Resizing{UnderWay: true}, resizing)
		n.mustSync(pod)
		require.Equal(n, "2", n.latest(pod, "a").Resources.Limits.Cpu().String())
	})
}

// cancelling carries out the first update and ends its caller's context.
type cancelling struct {
	*fake.Runtime
	cancel context.CancelFunc
}

func (c cancelling) UpdateResources(ctx context.Context, id runtime.ContainerID, want v1.ResourceRequirements) error {
	defer c.cancel()
	return c.Runtime.UpdateResources(ctx, id, want)
}

func TestNoStepIsTakenOnceItsContextHasEnded(t *testing.T) {
	inBubble(t, func(n *node) {
		ctx, cancel := context.WithCancel(n.Context())
		n.restartOver(cancelling{n.rt, cancel})
		pod := n.resized(newPod(), "c cpu=1/1 memory=1Gi/1Gi")
		n.mustSync(pod)
		r := n.manager.SyncPod(ctx, runtime.SyncRequest{Pod: n.resized(pod, "c cpu=2/2 memory=2Gi/2Gi")})
		require.ErrorIs(n, r.Err(), context.Canceled)
		require.NotErrorIs(n, r.Err(), runtime.ErrResizePodInPlace)
		require.Equal(n, []string{"c cpu 1/1 memory 2Gi/2Gi"}, n.updates())
		require.Empty(n, r.Steps, "the resize has not ended")
	})
}

// The resources of an init container of an older sandbox are not used for the running container.
func TestResizeGoesByTheCurrentSandbox(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := n.resized(newPod(sidecar("s"), regular("a")), "s cpu=1/1")
		status := n.mustSync(pod)
		old := *status.Latest("s")
		old.ID.ID, old.Sandbox, old.State, old.Annotations, old.Resources = "old", "old", runtime.StateExited, nil, nil
		status.Containers = append([]runtime.ContainerStatus{old}, status.Containers...)
		status.Sandboxes = append(status.Sandboxes, runtime.SandboxStatus{ID: "old"})
		r := n.manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: pod, Status: status})
		require.Empty(n, r.Plans)
	})
}

func TestResizingOfACallThatSawNothing(t *testing.T) {
	inBubble(t, func(n *node) {
		resizing := runtime.Resizing{UnderWay: true, Error: "busy"}
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus}, Times: 1, Err: errors.New("no")})
		resizing.Apply(n.sync(newPod()))
		require.Equal(n, runtime.Resizing{UnderWay: true, Error: "busy"}, resizing, "nothing new")
		resizing.Apply(n.sync(newPod()))
		require.Equal(n, runtime.Resizing{}, resizing)
	})
}

// A hung update holds up no start of the same pod.
func TestAHungUpdateBlocksNoSibling(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := n.resized(newPod(regular("a", "b")), "a cpu=1/1")
		n.mustSync(pod)
		pod = n.resized(pod, "a cpu=2/2")
		pod.Spec.Containers[1].Image = "img:2"
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpUpdateResources}, Latency: time.Hour})
		go n.sync(pod)
		n.pass(time.Second)
		require.Equal(n, "img:2", n.latest(pod, "b").Image)
		require.Equal(n, runtime.StateRunning, n.latest(pod, "b").State)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
	})
}

func TestContainersThatAreGoneAreNotAnError(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := n.resized(newPod(), "c cpu=1/1")
		n.mustSync(pod)
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpUpdateResources}, Err: runtime.ErrNotFound, Times: 1})
		require.NoError(n, n.sync(n.resized(pod, "c cpu=2/2")).Err())
	})
}

func TestRemovePodForgetsWhatWasGiven(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := n.resized(newPod(), "c cpu=1/1")
		n.mustSync(pod)
		id := n.latest(pod, "c").ID
		_, ok := n.manager.Actuated(pod.UID, id)
		require.True(n, ok)
		_, ok = n.manager.Actuated(types.UID("other"), id)
		require.False(n, ok)
		require.NoError(n, n.manager.KillPod(n.Context(), runtime.KillRequest{Pod: pod}).Err())
		require.NoError(n, n.manager.RemovePod(n.Context(), pod.UID))
		_, ok = n.manager.Actuated(pod.UID, id)
		require.False(n, ok)
	})
}
