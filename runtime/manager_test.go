// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// node is a manager over a fake backend, driven by hand.
type node struct {
	*testing.T
	world   *fake.World
	rt      *fake.Runtime
	manager *runtime.Manager
	events  *recorder
}

// inBubble runs f with a node in virtual time.
func inBubble(t *testing.T, f func(n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		world, err := fake.NewWorld(fake.WorldOptions{})
		require.NoError(t, err)
		n := &node{T: t, world: world, events: &recorder{}}
		n.restart(runtime.Options{})
		f(n)
		world.Close()
	})
}

// restart makes a new manager over the same world, as a new agent would.
func (n *node) restart(opts runtime.Options) {
	n.Helper()
	var err error
	n.rt, err = fake.New(fake.Options{World: n.world})
	require.NoError(n, err)
	generator, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: "/nonexistent/logs"})
	require.NoError(n, err)
	opts.Runtime, opts.Generator, opts.Events = n.rt, generator, n.events
	n.manager, err = runtime.New(opts)
	require.NoError(n, err)
}

func (n *node) sync(pod *v1.Pod) runtime.Result {
	n.Helper()
	return n.manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: pod})
}

// mustSync syncs until nothing more is to be done, and expects no failure.
func (n *node) mustSync(pod *v1.Pod) *runtime.PodStatus {
	n.Helper()
	for range 20 {
		r := n.sync(pod)
		require.NoError(n, r.Err())
		if len(r.Plans) == 0 {
			return r.Status
		}
		n.pass(time.Millisecond)
	}
	n.Fatal("the pod does not settle")
	return nil
}

// pass lets time go by, and everything happen that is due by then.
func (n *node) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (n *node) inject(f fake.Fault) {
	n.Helper()
	_, err := n.world.Inject(f)
	require.NoError(n, err)
}

// recorder collects events as "Type Reason object".
type recorder struct {
	mu       sync.Mutex
	lines    []string
	messages []string
}

func (r *recorder) Event(object apiruntime.Object, eventType, reason, message string) {
	ref := object.(*v1.ObjectReference)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, message)
	r.lines = append(r.lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", eventType, reason, ref.FieldPath)))
}

type podOption func(*v1.Pod)

func newPod(opts ...podOption) *v1.Pod {
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "web", types.UID("uid-web")
	pod.Spec.RestartPolicy = v1.RestartPolicyAlways
	for _, o := range opts {
		o(pod)
	}
	if len(pod.Spec.Containers) == 0 {
		regular("c")(pod)
	}
	return pod
}

func container(name string) v1.Container {
	return v1.Container{Name: name, Image: "img-" + name, Command: []string{"run"}}
}

func regular(names ...string) podOption {
	return func(p *v1.Pod) {
		for _, name := range names {
			p.Spec.Containers = append(p.Spec.Containers, container(name))
		}
	}
}

func initial(names ...string) podOption {
	return func(p *v1.Pod) {
		for _, name := range names {
			p.Spec.InitContainers = append(p.Spec.InitContainers, container(name))
		}
	}
}

func sidecar(name string) podOption {
	return func(p *v1.Pod) {
		always := v1.ContainerRestartPolicyAlways
		c := container(name)
		c.RestartPolicy = &always
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
}

// restartsAll returns a container whose exit with 42 restarts all containers of its pod.
func restartsAll(name string) v1.Container {
	c := container(name)
	c.RestartPolicy = new(v1.ContainerRestartPolicyNever)
	c.RestartPolicyRules = []v1.ContainerRestartRule{{
		Action: v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
			Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
		},
	}}
	return c
}

func grace(seconds int64) podOption {
	return func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

func TestNewNamesTheBadField(t *testing.T) {
	world, err := fake.NewWorld(fake.WorldOptions{})
	require.NoError(t, err)
	rt, err := fake.New(fake.Options{World: world})
	require.NoError(t, err)
	generator, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: "/logs"})
	require.NoError(t, err)
	for field, opts := range map[string]runtime.Options{
		"Options.Runtime":             {Generator: generator},
		"Options.Generator":           {Runtime: rt},
		"Options.MaxConcurrentStarts": {Runtime: rt, Generator: generator, MaxConcurrentStarts: -1},
		"Options.MaxConcurrentPulls":  {Runtime: rt, Generator: generator, MaxConcurrentPulls: -1},
		"Options.Backoff":             {Runtime: rt, Generator: generator, Backoff: runtime.Backoff{Max: -1}},
	} {
		_, err := runtime.New(opts)
		require.ErrorContains(t, err, field)
	}
	processors := goruntime.GOMAXPROCS(0)
	_, err = runtime.New(runtime.Options{Runtime: rt, Generator: generator})
	require.NoError(t, err)
	require.Equal(t, processors, goruntime.GOMAXPROCS(0), "nothing of the process is changed")
}

func TestSyncPodStartsAllAndThenDoesNothing(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(regular("a", "b"))
		status := n.mustSync(pod)
		require.Equal(n, runtime.StateRunning, status.Active("a").State)
		require.Equal(n, runtime.StateRunning, status.Active("b").State)
		require.Contains(n, n.events.lines, "Normal Created spec.containers{a}", "events refer to the container")

		before, events := len(n.world.Journal()), len(n.events.lines)
		r := n.manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: pod, Status: status})
		require.NoError(n, r.Err())
		require.False(n, r.Changed())
		require.Len(n, n.world.Journal(), before, "a steady pod with a known status makes no call")
		require.Len(n, n.events.lines, events)
	})
}

func TestEventsOfAStart(t *testing.T) {
	inBubble(t, func(n *node) {
		n.mustSync(newPod(regular("a")))
		require.Equal(n, []string{"Normal Created spec.containers{a}", "Normal Started spec.containers{a}"}, n.events.lines)
	})
}

func TestInitContainersRunInOrderBeforeRegularOnes(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(initial("i1", "i2"), sidecar("s"), regular("a"))
		for _, name := range []string{"i1", "i2"} {
			n.world.Script(fake.Target{Container: name}, fake.Exit(time.Second, 0))
		}
		for _, running := range []string{"i1", "i2", "s", "a"} {
			r := n.sync(pod)
			require.NoError(n, r.Err())
			require.Equal(n, runtime.StateRunning, r.Status.Active(running).State, running)
			n.pass(2 * time.Second)
		}
		for _, order := range [][2]string{{"i1", "i2"}, {"i2", "s"}, {"s", "a"}} {
			require.NoError(n, n.world.Before(
				fake.Target{Op: fake.OpStartContainer, Container: order[0]}, fake.Target{Op: fake.OpStartContainer, Container: order[1]}))
		}
		require.True(n, len(n.sync(pod).Plans) == 0)
	})
}

func TestCrashLoopBacksOffAtTheContractsTimes(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 1))
		began := time.Now()
		var starts []time.Duration
		for time.Since(began) < 20*time.Minute {
			r := n.sync(pod)
			if at, waiting := r.RetryAt(); waiting {
				require.ErrorIs(n, r.Err(), runtime.ErrCrashLoopBackOff)
				require.ErrorContains(n, r.Err(), "next try at "+at.UTC().Format(time.RFC3339))
				time.Sleep(time.Until(at))
				continue
			}
			require.NoError(n, r.Err())
			if r.Changed() {
				starts = append(starts, time.Since(began))
			}
			n.pass(time.Second) // it exits now
		}
		var waits []time.Duration
		for i := 1; i < len(starts); i++ {
			waits = append(waits, starts[i]-starts[i-1]-time.Second)
		}
		require.Equal(n, []time.Duration{0, 10e9, 20e9, 40e9, 80e9, 160e9, 300e9}, waits[:7])
		require.Contains(n, n.events.lines, "Warning BackOff spec.containers{c}")
		require.NoError(n, n.world.NoOverlap())
	})
}

func TestBackOffAndRestartCountSurviveAnAgentRestart(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 1))
		for range 3 { // starts 0, 1 (at once) and, 10 s later, 2
			r := n.sync(pod)
			if at, ok := r.RetryAt(); ok {
				time.Sleep(time.Until(at))
				r = n.sync(pod)
			}
			require.NoError(n, r.Err())
			n.pass(time.Second)
		}
		n.restart(runtime.Options{})
		r := n.sync(pod)
		at, ok := r.RetryAt()
		require.True(n, ok, "the new agent knows of the loop")
		require.Equal(n, 20*time.Second, time.Until(at))
		time.Sleep(time.Until(at))
		require.NoError(n, n.sync(pod).Err())
		status, err := n.rt.PodStatus(n.Context(), pod.UID)
		require.NoError(n, err)
		require.EqualValues(n, 3, status.Latest("c").RestartCount)
		require.Len(n, status.Containers, 2, "the newest ended instance is kept, older ones are not")
	})
}

func TestAFailedStartWaitsButIsNoRestart(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer}, Times: 2, Err: fmt.Errorf("no such command")})
		r := n.sync(pod)
		require.ErrorIs(n, r.Err(), runtime.ErrRunContainer)
		r = n.sync(pod)
		require.ErrorIs(n, r.Err(), runtime.ErrRunContainer)
		r = n.sync(pod)
		at, ok := r.RetryAt()
		require.True(n, ok)
		require.Equal(n, 10*time.Second, time.Until(at))
		time.Sleep(10 * time.Second)
		status := n.mustSync(pod)
		require.EqualValues(n, 0, status.Latest("c").RestartCount, "it never ran before")
		require.Len(n, status.Containers, 1, "what never ran leaves no record")
	})
}

func TestSyncPodCancelledIsNotAFailure(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer}, HangUntilCtx: true, Times: 1})
		ctx, cancel := context.WithCancelCause(n.Context())
		why := fmt.Errorf("the pod was deleted")
		time.AfterFunc(time.Second, func() { cancel(why) })
		r := n.manager.SyncPod(ctx, runtime.SyncRequest{Pod: pod})
		require.ErrorIs(n, r.Err(), why)
		require.NotErrorIs(n, r.Err(), runtime.ErrRunContainer)
		require.NotContains(n, n.events.lines, "Warning Failed spec.containers{c}")
		require.EqualValues(n, 0, n.mustSync(pod).Latest("c").RestartCount)
	})
}

func TestRemovePodRefusesWhileSomethingRuns(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		n.mustSync(pod)
		require.ErrorContains(n, n.manager.RemovePod(n.Context(), pod.UID), "container c is running")
		r := n.manager.KillPod(n.Context(), runtime.KillRequest{Pod: pod})
		require.NoError(n, r.Err())
		require.Empty(n, r.Status.Running())
		require.NoError(n, n.manager.RemovePod(n.Context(), pod.UID))
		pods, err := n.rt.List(n.Context(), runtime.ListOptions{})
		require.NoError(n, err)
		require.Empty(n, pods)
		require.NoError(n, n.manager.RemovePod(n.Context(), pod.UID), "twice is fine")
	})
}

// After an interrupted removal the newest instance is left, so that the next agent knows its
// restart count and exit.
func TestARemovalThatIsInterruptedLeavesTheNewest(t *testing.T) {
	for nth := 1; nth <= 2; nth++ {
		inBubble(t, func(n *node) {
			pod := newPod()
			n.world.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 1), fake.Script{})
			n.mustSync(pod)
			time.Sleep(2 * time.Second)
			n.mustSync(pod)
			require.NoError(n, n.manager.KillPod(n.Context(), runtime.KillRequest{Pod: pod}).Err())
			n.inject(fake.Fault{On: fake.Target{Op: fake.OpRemoveContainer}, Nth: nth, Err: errors.New("busy")})
			require.ErrorContains(n, n.manager.RemovePod(n.Context(), pod.UID), "busy")
			status, err := n.rt.PodStatus(n.Context(), pod.UID)
			require.NoError(n, err)
			require.Len(n, status.Containers, 3-nth)
			require.EqualValues(n, 1, status.Latest("c").RestartCount)
			require.Len(n, status.Sandboxes, 1, "to remove it would remove what is in it")
			require.NoError(n, n.manager.RemovePod(n.Context(), pod.UID))
		})
	}
}

func TestAPurgeThatIsInterruptedLeavesTheNewest(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod(initial("i"), regular("a"))
		n.world.Script(fake.Target{Container: "i"}, fake.Exit(time.Second, 1), fake.Exit(fake.AtOnce, 0))
		n.mustSync(pod)
		time.Sleep(2 * time.Second)
		n.mustSync(pod)
		n.world.Reboot()
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpRemoveContainer, Container: "i"}, Nth: 2, Err: errors.New("busy")})
		require.ErrorIs(n, n.sync(pod).Err(), runtime.ErrRemoveContainer)
		status, err := n.rt.PodStatus(n.Context(), pod.UID)
		require.NoError(n, err)
		require.EqualValues(n, 1, status.Latest("i").RestartCount)
	})
}
