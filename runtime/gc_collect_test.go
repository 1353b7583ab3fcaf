// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// gcNode is a node with log files for garbage collection.
type gcNode struct {
	*node
	logs   string
	policy runtime.GCPolicy
	fates  map[types.UID]runtime.PodFate
}

func gcInBubble(t *testing.T, f func(n *gcNode)) {
	t.Helper()
	logs := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		world, err := fake.NewWorld(fake.WorldOptions{WriteLogs: true})
		require.NoError(t, err)
		n := &gcNode{node: &node{T: t, world: world, events: &recorder{}}, logs: logs, fates: map[types.UID]runtime.PodFate{}}
		n.policy.LogRoot = logs
		n.rt, err = fake.New(fake.Options{World: world})
		require.NoError(t, err)
		n.over(n.rt)
		f(n)
		world.Close()
	})
}

// over makes a manager over rt.
func (n *gcNode) over(rt runtime.Runtime) {
	n.Helper()
	generator, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: n.logs})
	require.NoError(n, err)
	n.manager, err = runtime.New(runtime.Options{Runtime: rt, Generator: generator, Events: n.events})
	require.NoError(n, err)
}

func (n *gcNode) query() runtime.GCQuery {
	return runtime.GCQuery{Fate: func(uid types.UID) runtime.PodFate { return n.fates[uid] }}
}

func (n *gcNode) collect() error { return n.manager.GarbageCollect(n.Context(), n.policy, n.query()) }

// ended starts a pod and kills it again.
func (n *gcNode) ended(uid types.UID, opts ...podOption) *v1.Pod {
	n.Helper()
	pod := newPod(opts...)
	pod.UID, pod.Name = uid, string(uid)
	n.mustSync(pod)
	r, _ := n.kill(pod)
	require.NoError(n, r.Err())
	return pod
}

// left lists the remaining pods of the runtime.
func (n *gcNode) left() []types.UID {
	n.Helper()
	pods, err := n.rt.List(n.Context(), runtime.ListOptions{})
	require.NoError(n, err)
	uids := []types.UID{}
	for _, p := range pods {
		uids = append(uids, p.UID)
	}
	return uids
}

// files lists the files below the log root.
func (n *gcNode) files() []string {
	n.Helper()
	all := []string{}
	require.NoError(n, filepath.WalkDir(n.logs, func(path string, d os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(n.logs, path); err == nil && !d.IsDir() {
			all = append(all, rel)
		}
		return err
	}))
	return all
}

func TestGarbageCollectRemovesAllOfAPodThatIsGone(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		n.ended("gone", initial("i"), regular("a", "b"))
		kept := n.ended("over")
		n.fates["gone"], n.fates["over"] = runtime.PodGone, runtime.PodOver
		require.NoError(n, n.collect())
		require.Equal(n, []types.UID{"over"}, n.left())
		require.Equal(n, []string{"default_over_over/c/0.log"}, n.files())
		entries, err := os.ReadDir(n.logs)
		require.NoError(n, err)
		require.Len(n, entries, 1, "the folder is gone, too")

		n.policy.AllUnused = true
		require.NoError(n, n.collect())
		require.Equal(n, []types.UID{"over"}, n.left(), "nobody said that its end was reported")
		query := n.query()
		query.Reported = allReported
		require.NoError(n, n.manager.GarbageCollect(n.Context(), n.policy, query))
		require.Empty(n, n.left())
		require.Equal(n, []string{"default_over_over/c/0.log"}, n.files(), "the pod is still known, and its logs are its content")
		n.fates[kept.UID] = runtime.PodGone
		require.NoError(n, n.collect())
		require.Empty(n, n.files())
	})
}

func TestGarbageCollectWithNothingToDoListsOnce(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		pod := newPod()
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 1), fake.Script{})
		n.mustSync(pod)
		n.pass(time.Second)
		n.mustSync(pod) // one ended beside one that runs
		before := len(n.world.Journal())
		require.NoError(n, n.collect())
		require.Len(n, n.world.Journal(), before+1)
		require.Equal(n, 1, n.world.Count(fake.Target{Op: fake.OpList}))
		require.Len(n, n.files(), 2)

		require.NoError(n, n.world.LoseRecords(pod.UID, "c"))
		require.NoError(n, n.collect())
		require.Equal(n, []string{"default_web_uid-web/c/1.log"}, n.files(), "the next restart count is read from it")
		before = len(n.world.Journal())
		require.NoError(n, n.collect())
		require.Len(n, n.world.Journal(), before+1)
	})
}

func TestGarbageCollectKeepsTheLogsOfRecords(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		first, second := newPod(), newPod()
		second.Name, second.UID = "x", "uid-x"
		pods := []*v1.Pod{first, second}
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(11*time.Minute, 1)) // no back-off
		for range 5 {
			n.mustSync(first)
			n.mustSync(second)
			n.pass(11 * time.Minute)
		}
		var left []string
		for _, pod := range pods {
			folder := "default_" + pod.Name + "_" + string(pod.UID) + "/c/"
			for _, name := range []string{"0.log", "2.log", "2.log.20260701-120000.gz", "3.log.20260701-120000", "notes.txt"} {
				require.NoError(n, os.WriteFile(filepath.Join(n.logs, folder, name), nil, 0o600))
			}
			left = append(left, folder+"4.log", folder+"notes.txt")
		}
		require.Len(n, n.files(), 14, "as if an agent had ended between pruning a record and its logs")
		require.NoError(n, n.collect())
		require.Equal(n, left, n.files(), "one ended instance was one too many, and went with its logs")
		for _, pod := range pods {
			n.mustSync(pod)
			status, err := n.rt.PodStatus(n.Context(), pod.UID)
			require.NoError(n, err)
			require.EqualValues(n, 5, status.Latest("c").RestartCount)
		}
	})
}

// No further pod is cleaned up after the end of the call's context.
func TestGarbageCollectBeginsNothingAfterItsContext(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		for _, uid := range []types.UID{"1", "2", "3", "4", "5", "6"} {
			n.ended(uid)
			n.fates[uid] = runtime.PodGone
		}
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpRemoveContainer}, HangUntilCtx: true})
		cause := errors.New("the agent stops")
		ctx, cancel := context.WithCancelCause(n.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		began := time.Now()
		require.EqualError(n, n.manager.GarbageCollect(ctx, n.policy, n.query()), "garbage collection: the agent stops")
		require.Equal(n, time.Second, time.Since(began))
		require.Equal(n, 4, n.world.Total(fake.OpRemoveContainer))
		require.Len(n, n.left(), 6)
		require.Len(n, n.files(), 6)
	})
}

// A failed removal keeps only the dependent objects. The next round tries again.
func TestGarbageCollectGoesOnAndTriesAgain(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		n.ended("bad", regular("x", "y"))
		n.ended("good")
		n.ended("sand")
		n.fates["bad"], n.fates["good"], n.fates["sand"] = runtime.PodGone, runtime.PodGone, runtime.PodGone
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpRemoveContainer, Container: "x"}, Times: 1, Err: errors.New("device busy")})
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStopSandbox, Pod: "sand"}, Times: 1, Err: errors.New("no network")})
		err := n.collect()
		require.ErrorContains(n, err, "pod bad: remove container x")
		require.ErrorContains(n, err, "device busy")
		require.ErrorContains(n, err, "pod sand: remove sandbox")
		require.ElementsMatch(n, []types.UID{"bad", "sand"}, n.left())
		status, err := n.rt.PodStatus(n.Context(), "bad")
		require.NoError(n, err)
		require.Len(n, status.Containers, 1, "y went, x did not with its sandbox")
		require.Len(n, n.files(), 3, "and the log folders stayed")
		require.NoError(n, n.collect())
		require.Empty(n, n.left())
		require.Empty(n, n.files())
	})
}

// A hanging call delays its own pod only (compare kubernetes#93886, where all pods wait in a
// queue).
func TestUpstream93886OneHungPodHoldsUpNoOther(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		var uids []types.UID
		for _, uid := range []types.UID{"hung", "p1", "p2", "p3", "p4", "p5"} {
			n.ended(uid)
			n.fates[uid] = runtime.PodGone
			uids = append(uids, uid)
		}
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpRemoveContainer, Pod: "hung"}, HangUntilCtx: true})
		ctx, cancel := context.WithTimeout(n.Context(), 2*time.Minute)
		defer cancel()
		done := make(chan error)
		go func() { done <- n.manager.GarbageCollect(ctx, n.policy, n.query()) }()
		synctest.Wait()
		require.Equal(n, uids[:1], n.left(), "at once, while the call hangs")
		require.ErrorIs(n, <-done, context.DeadlineExceeded)
	})
}

func TestGarbageCollectStopsWhatMayRun(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		pod := newPod(grace(20))
		n.world.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: fake.Never})
		n.mustSync(pod)
		n.fates[pod.UID] = runtime.PodGone
		require.NoError(n, n.collect())
		require.Equal(n, 0, n.world.Count(fake.Target{Op: fake.OpStopContainer}), "what runs is left alone, also in a pod that is gone")
		require.NoError(n, n.world.LoseTrack(pod.UID, "c"))

		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStopContainer}, Times: 1, Err: errors.New("no answer")})
		require.ErrorContains(n, n.collect(), "no answer")
		require.Equal(n, 0, n.world.Count(fake.Target{Op: fake.OpRemoveContainer}), "what could not be stopped stays")

		began := time.Now()
		require.NoError(n, n.collect())
		require.Equal(n, 20*time.Second, time.Since(began), "its own record says how long it may take")
		require.Contains(n, n.events.lines, "Normal Killing spec.containers{c}")
		require.NotEmpty(n, n.left(), "its sandbox is ready, so it stays")
		require.NotEmpty(n, n.files())
	})
}

// A pod that comes back between the decision and the deed keeps everything.
func TestGarbageCollectAsksAgainBeforeItActs(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		n.ended("p", regular("a", "b"))
		for asked := range 4 { // by two plans, before the records go, before the logs go
			left := asked
			query := runtime.GCQuery{Fate: func(types.UID) runtime.PodFate {
				if left--; left >= 0 {
					return runtime.PodGone
				}
				return runtime.PodLives
			}}
			require.NoError(n, n.manager.GarbageCollect(n.Context(), n.policy, query))
			require.Len(n, n.files(), 2)
			require.Equal(n, asked == 3, len(n.left()) == 0, "asked %d times", asked)
		}
	})
}

// overtaken lists running containers as unknown, because a listing may be outdated.
type overtaken struct{ runtime.Runtime }

func (o overtaken) List(ctx context.Context, opts runtime.ListOptions) ([]*runtime.PodStatus, error) {
	pods, err := o.Runtime.List(ctx, opts)
	for _, p := range pods {
		for i := range p.Containers {
			p.Containers[i].State = runtime.StateUnknown
		}
	}
	return pods, err
}

func TestGarbageCollectLeavesWhatTurnsOutToRun(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		n.over(overtaken{n.rt})
		pod := newPod(regular("runs", "ends"))
		n.world.Script(fake.Target{Container: "ends"}, fake.Exit(time.Second, 0))
		n.mustSync(pod)
		n.pass(time.Second)
		n.fates[pod.UID] = runtime.PodGone
		require.NoError(n, n.collect())
		status, err := n.rt.PodStatus(n.Context(), pod.UID)
		require.NoError(n, err)
		require.Len(n, status.Containers, 1)
		require.Equal(n, runtime.StateRunning, status.Latest("runs").State)
		require.Equal(n, 0, n.world.Count(fake.Target{Op: fake.OpStopContainer}))
	})
}

func TestGarbageCollectForgetsAPodThatIsGone(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		pod := newPod(initial("i"), regular("a"))
		n.world.Script(fake.Target{Container: "i"}, fake.Exit(fake.AtOnce, 0))
		n.mustSync(pod)
		n.world.Reboot()
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpCreateContainer, Container: "i"}, Times: 1, Err: errors.New("no")})
		require.Error(n, n.sync(pod).Err(), "init was purged for a new sandbox, and is only remembered")
		_, _ = n.kill(pod)
		n.fates[pod.UID] = runtime.PodGone
		require.NoError(n, n.collect())
		require.Empty(n, n.left())
		require.EqualValues(n, 0, n.mustSync(pod).Latest("i").RestartCount, "a pod that comes back begins anew")
	})
}

func TestGarbageCollectTouchesNoPodThatItCannotRead(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		for _, uid := range []types.UID{"p1", "p2"} {
			n.ended(uid)
			n.fates[uid] = runtime.PodGone
		}
		n.policy.MinAge = time.Minute
		require.NoError(n, n.collect())
		require.Len(n, n.left(), 2, "too young")
		n.pass(time.Minute)
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus, UID: "p1"}, Times: 1, Err: errors.New("broken record")})
		require.ErrorContains(n, n.collect(), "pod p1: read its status: broken record")
		require.Equal(n, []types.UID{"p1"}, n.left())
		require.NoError(n, n.collect())
		require.Empty(n, n.left())
		require.Empty(n, n.files())
	})
}

// overlapping fails the test when two calls change one container at once.
type overlapping struct {
	runtime.Runtime
	t    *testing.T
	mu   sync.Mutex
	busy []runtime.ContainerID
	seen int
}

func (o *overlapping) RemoveContainer(ctx context.Context, id runtime.ContainerID) error {
	o.mu.Lock()
	o.seen++
	if slices.Contains(o.busy, id) {
		o.t.Errorf("%s is being removed twice at once", id)
	}
	o.busy = append(o.busy, id)
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.busy = slices.DeleteFunc(o.busy, func(other runtime.ContainerID) bool { return other == id })
	}()
	return o.Runtime.RemoveContainer(ctx, id)
}

func TestGarbageCollectBesideASyncOfTheSamePod(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		rt := &overlapping{Runtime: n.rt, t: n.T}
		n.over(rt)
		pod := newPod()
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(11*time.Minute, 1))
		for range 2 {
			n.mustSync(pod)
			n.pass(11 * time.Minute)
		}
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpRemoveContainer}, Latency: time.Minute})
		var wg sync.WaitGroup
		wg.Go(func() { require.NoError(n, n.collect()) })
		wg.Go(func() { require.NoError(n, n.sync(pod).Err()) })
		synctest.Wait() // one of them has its turn
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(n.Context(), time.Second)
			defer cancel()
			require.ErrorIs(n, n.manager.GarbageCollect(ctx, n.policy, n.query()), context.DeadlineExceeded, "no turn, no wait")
		})
		wg.Wait()
		require.Equal(n, 2, rt.seen, "both came upon the same instance")
		status, err := n.rt.PodStatus(n.Context(), pod.UID)
		require.NoError(n, err)
		require.Len(n, status.Containers, 2)
	})
}
