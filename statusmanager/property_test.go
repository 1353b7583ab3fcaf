// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

var (
	seeds    = flag.Uint64("seeds", casetest.Rounds[uint64](80), "how many random lives TestRandomLives plays")
	onlySeed = flag.Uint64("seed", 0, "play this one life only")
)

// TestRandomLives plays random updates of a few pods against a server with random faults, other writers, and forgetful
// callers, and checks that
//   - the phase on the server never moves backwards, and an end is never undone,
//   - a pod is deleted only after it was terminated, has a deletion timestamp, and has its end stored on the server,
//   - a pod never has more than one request at a time, and changes no more often than its statuses differ,
//   - in the end the server has the last status of every pod, and nothing is left to be done.
func TestRandomLives(t *testing.T) {
	first, last := uint64(1), *seeds
	if *onlySeed != 0 {
		first, last = *onlySeed, *onlySeed
	}
	for seed := first; seed <= last; seed++ {
		synctest.Test(t, func(t *testing.T) { newLives(t, seed).play() })
		if t.Failed() {
			return
		}
	}
}

// lives is the state of one seed.
type lives struct {
	t      *testing.T
	seed   uint64
	rng    *rand.Rand
	server *statustest.Server
	m      *statusmanager.Manager
	pods   []*life
	getter bool
	feed   bool

	mu   sync.Mutex
	busy map[string]int
}

// life is the expected state of one pod.
type life struct {
	pod      *v1.Pod
	mirror   types.UID // of a static pod
	last     v1.PodStatus
	phase    v1.PodPhase // on the server
	finished bool
	deleting bool
	gone     bool // it was deleted, or nearly
	statuses int  // that were accepted
	others   int  // changes by others, and lives after the first
}

func (l *life) api() types.UID {
	if l.mirror != "" {
		return l.mirror
	}
	return l.pod.UID
}

func newLives(t *testing.T, seed uint64) *lives {
	rng := rand.New(rand.NewPCG(seed, 11))
	l := &lives{t: t, seed: seed, rng: rng, busy: map[string]int{}, getter: rng.IntN(2) == 0, feed: rng.IntN(3) > 0}
	l.server = newServer(t, statustest.Options{Latency: time.Duration(rng.IntN(50)) * time.Millisecond})
	o := statusmanager.Options{Patcher: l, Workers: 1 + rng.IntN(4), OnChange: l.accepted}
	if l.getter {
		o.Patcher = withGetter{l}
	}
	if rng.IntN(2) == 0 || !l.feed || !l.getter { // mirrors, changes of other writers and earlier objects must be known
		o.Pods = l.server
	}
	l.m = newManager(t, o)
	l.server.Watch(l.changed)
	for i := range 5 {
		pod := testPod(types.UID(fmt.Sprintf("pod-%d", i)))
		one := &life{}
		if i == 4 {
			static(pod)
			one.mirror = l.server.CreateMirror(pod).UID
		} else {
			if i == 3 {
				gate("example.com/gate")(pod)
			}
			pod = l.server.Create(pod)
		}
		one.pod = pod
		l.pods = append(l.pods, one)
	}
	return l
}

func (l *lives) find(uid types.UID) *life {
	for _, one := range l.pods {
		if one.pod.UID == uid || one.mirror == uid {
			return one
		}
	}
	return nil
}

// accepted counts statuses.
func (l *lives) accepted(c statusmanager.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.find(c.Pod.UID).statuses++
}

// changed is the watch, and checks the server's status.
func (l *lives) changed(pod *v1.Pod) {
	l.mu.Lock()
	if one := l.find(pod.UID); one != nil {
		if rank := map[v1.PodPhase]int{v1.PodRunning: 1, v1.PodSucceeded: 2, v1.PodFailed: 2}; one.mirror == "" &&
			(rank[pod.Status.Phase] < rank[one.phase] || rank[one.phase] == 2 && pod.Status.Phase != one.phase) {
			l.t.Errorf("%s: from %s to %s", pod.Name, one.phase, pod.Status.Phase)
		}
		one.phase = pod.Status.Phase
	}
	l.mu.Unlock()
	if l.feed {
		l.m.Observed(pod)
	}
}

// alone checks that no other request for the pod is in flight.
func (l *lives) alone(ref statusmanager.PodRef) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy[ref.Name]++
	if l.busy[ref.Name] > 1 {
		l.t.Errorf("two requests for %s", ref)
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.busy[ref.Name]--
	}
}

// PatchStatus and DeletePod make lives a Patcher.
func (l *lives) PatchStatus(ctx context.Context, ref statusmanager.PodRef, patch []byte) (*v1.Pod, error) {
	defer l.alone(ref)()
	return l.server.PatchStatus(ctx, ref, patch)
}

func (l *lives) DeletePod(ctx context.Context, ref statusmanager.PodRef) error {
	defer l.alone(ref)()
	l.mu.Lock()
	one := l.find(ref.UID)
	phase := v1.PodFailed
	if pod := l.server.Get(ref.UID); pod != nil { // the watch may be behind
		phase = pod.Status.Phase
	}
	if !one.finished || !one.deleting || one.mirror != "" || phase != v1.PodSucceeded && phase != v1.PodFailed {
		l.t.Errorf("%s must not be deleted: %+v", ref, one)
	}
	one.gone = true // perhaps
	l.mu.Unlock()
	return l.server.DeletePod(ctx, ref)
}

// withGetter is lives with the server's Getter.
type withGetter struct{ *lives }

func (l withGetter) GetPod(ctx context.Context, ref statusmanager.PodRef) (*v1.Pod, error) {
	defer l.alone(ref)()
	return l.server.GetPod(ctx, ref)
}

func (l *lives) chance(n int) bool { return l.rng.IntN(n) == 0 }

func (l *lives) play() {
	stop := start(l.t, l.m)
	defer func() {
		if l.t.Failed() {
			l.t.Logf("again with: go test -run TestRandomLives -seed %d", l.seed)
		}
	}()
	for range 60 {
		l.step(l.pods[l.rng.IntN(len(l.pods))])
		if l.chance(2) {
			time.Sleep(time.Duration(l.rng.IntN(300)) * time.Millisecond)
		}
		if l.chance(15) {
			l.fault()
		}
	}
	for _, one := range l.pods { // each has a last word
		if !one.finished {
			l.set(one)
		}
	}
	time.Sleep(15 * time.Minute) // faults end, and back-offs
	synctest.Wait()
	for _, one := range l.pods {
		l.check(one)
	}
	require.Zero(l.t, l.m.Stats().Unsynced)
	require.Zero(l.t, l.m.Stats().Delayed)
	before := len(l.server.Journal())
	time.Sleep(10 * time.Minute)
	require.LessOrEqual(l.t, len(l.server.Journal())-before, 10, "at most a look at pods that are gone")
	stop()
}

func (l *lives) step(one *life) {
	uid := one.pod.UID
	switch l.rng.IntN(14) {
	default:
		l.set(one)
	case 0, 1:
		_, err := l.m.SetContainerReadiness(uid, "fake://main", l.chance(2))
		require.NoError(l.t, err)
	case 2:
		_, err := l.m.SetContainerStartup(uid, "fake://main", l.chance(2))
		require.NoError(l.t, err)
	case 3:
		l.other(one)
	case 4:
		if one.mirror == "" && l.chance(2) && l.server.Get(uid) != nil {
			pod, err := l.server.Delete(uid)
			require.NoError(l.t, err)
			one.pod = pod
			l.mu.Lock()
			one.deleting = true
			l.mu.Unlock()
			l.set(one)
		}
	case 5:
		if one.deleting {
			l.terminate(one)
		}
	case 6:
		if l.chance(4) { // the agent forgets, and starts anew
			l.m.RemoveOrphanedStatuses(func(other types.UID) bool { return other != uid })
			one.last = v1.PodStatus{}
			l.mu.Lock()
			one.finished = false
			one.others++
			l.mu.Unlock()
			l.set(one)
		}
	case 7:
		if one.mirror != "" {
			l.server.Remove(one.mirror)
			l.mu.Lock()
			one.others++
			one.mirror = "" // while it is made
			l.mu.Unlock()
			mirror := l.server.CreateMirror(one.pod).UID
			l.mu.Lock()
			one.mirror = mirror
			l.mu.Unlock()
		}
	}
}

// set sets a new status of a living pod, or ends the pod.
func (l *lives) set(one *life) {
	if one.finished {
		return
	}
	states := []v1.ContainerStatus{waiting("main", "CrashLoopBackOff"), exited("main", 1), running("main"), ready("main")}
	if mine, _ := l.m.GetPodStatus(one.pod.UID); mine.Phase == v1.PodFailed || mine.Phase == v1.PodSucceeded {
		states = states[:2] // the end of a pod is not told while something runs
	}
	s := status([]v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodRunning, v1.PodRunning}[l.rng.IntN(4)], states[l.rng.IntN(len(states))])
	s.ContainerStatuses[0].RestartCount = int32(l.rng.IntN(3))
	s.Reason = []string{"", "A", "B"}[l.rng.IntN(3)]
	if l.chance(3) {
		s.PodIPs = []v1.PodIP{{IP: "10.0.0.1"}, {IP: "10.0.0.2"}}[:1+l.rng.IntN(2)]
		s.PodIP = s.PodIPs[0].IP
	}
	if l.chance(12) {
		s = status([]v1.PodPhase{v1.PodSucceeded, v1.PodFailed}[l.rng.IntN(2)], exited("main", 0))
	}
	_, err := l.m.SetPodStatus(one.pod, s)
	if err != nil {
		require.ErrorAs(l.t, err, new(*statusmanager.TransitionError))
	}
	one.last = s
}

func (l *lives) terminate(one *life) {
	l.mu.Lock()
	one.finished = true
	l.mu.Unlock()
	_, err := l.m.TerminatePod(one.pod)
	require.NoError(l.t, err)
}

// other writes to the pod as another writer.
func (l *lives) other(one *life) {
	uid := one.api()
	if l.server.Get(uid) == nil {
		return
	}
	l.mu.Lock()
	one.others++
	l.mu.Unlock()
	_, err := l.server.Change(uid, func(pod *v1.Pod) {
		kind := []v1.PodConditionType{v1.PodReady, "example.com/gate"}[l.rng.IntN(2)]
		value := []v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse}[l.rng.IntN(2)]
		for i := range pod.Status.Conditions {
			if pod.Status.Conditions[i].Type == kind {
				pod.Status.Conditions[i].Status = value
				return
			}
		}
		pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: kind, Status: value})
	})
	require.NoError(l.t, err)
}

func (l *lives) fault() {
	errs := []error{
		errors.New("connection refused"), apierrors.NewInternalError(errors.New("etcd")), apierrors.NewTooManyRequests("later", 2),
		apierrors.NewConflict(v1.Resource("pods"), "x", errors.New("modified")),
		apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil),
	}
	f := statustest.Fault{Times: 1 + l.rng.IntN(6), For: 20 * time.Second}
	switch n := l.rng.IntN(len(errs) + 3); n {
	case 0:
		f.DoneButReplyLost = true
	case 1:
		f.HangUntilCtx = true
	case 2:
		f.Latency = time.Duration(l.rng.IntN(12_000)) * time.Millisecond
	default:
		f.Err = errs[n-3]
	}
	inject(l.t, l.server, f)
}

// check compares the server's final status with the last status set.
func (l *lives) check(one *life) {
	t, mine := l.t, v1.PodStatus{}
	mine, ok := l.m.GetPodStatus(one.pod.UID)
	require.True(t, ok)
	pod := l.server.Get(one.api())
	if pod == nil {
		require.True(t, one.gone, "%s was lost", one.pod.Name)
		return
	}
	api := pod.Status
	require.False(t, one.finished && one.deleting && l.feed, "%s should be gone", one.pod.Name)
	if !one.finished {
		want := one.last.ContainerStatuses[0]
		require.Equal(t, text(t, want.State), text(t, api.ContainerStatuses[0].State), "%s is stale", one.pod.Name)
		require.Equal(t, want.RestartCount, api.ContainerStatuses[0].RestartCount)
		require.Equal(t, text(t, one.last.PodIPs), text(t, api.PodIPs))
	}
	require.Equal(t, mine.Phase, api.Phase, one.pod.Name)
	for _, kind := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady, v1.PodInitialized, v1.PodScheduled} {
		require.Equal(t, conditionStatus(mine, kind), conditionStatus(api, kind), "%s %s\n%s", one.pod.Name, kind, l.server.Journal())
	}
	changes := 0
	for _, e := range l.server.Journal() {
		if e.Request == statusmanager.RequestPatch && e.Changed && e.Pod.Name == one.pod.Name {
			changes++
		}
	}
	require.LessOrEqual(t, changes, one.statuses+one.others, "%s\n%s", one.pod.Name, l.server.Journal())
}
