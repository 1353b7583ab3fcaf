// SPDX-License-Identifier: Apache-2.0

package statustest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/statusmanager"
)

// Harness configures Run.
type Harness struct {
	// Patcher returns the Patcher under test, connected to server by its methods or its Transport.
	// Required.
	Patcher func(server *Server) statusmanager.Patcher
	// Servers is how many hostile servers are played. Defaults to 200.
	Servers int
	// Seed is the seed of the first server; further servers use the following seeds. A failure
	// names the seed of its server. Defaults to 1.
	Seed uint64
}

// The bounds checked by Run. The bounds belong to a Manager with default Options.
const (
	interval = statusmanager.MaxBackoff
	burst    = 5
	latency  = 10 * time.Millisecond
)

// Run plays a Manager on the Patcher of h against random hostile servers, each in virtual time. Two
// pods of a server are treated by a RandomHostility, and a third is not; statuses change, sometimes
// all the time, and pods end. Run checks these bounds:
//   - in any time T, a pod makes at most as many requests as its caller set statuses, plus 5, plus
//     T/10 s,
//   - a pod without news makes at most one request per 10 s, after at most 5 requests,
//   - a new status of the healthy pod reaches the server within twice the time of one request,
//   - after the end of the hostility, a new status of each pod reaches the server within 15 s, and
//     an ended pod with a deletion timestamp is deleted.
func Run(t *testing.T, h Harness) {
	if h.Servers == 0 {
		h.Servers = 200
	}
	seed := max(h.Seed, 1)
	shards := min(runtime.GOMAXPROCS(0), h.Servers)
	for shard := range shards {
		t.Run(fmt.Sprintf("shard %d of %d", shard+1, shards), func(t *testing.T) {
			t.Parallel()
			for i := shard; i < h.Servers && !t.Failed(); i += shards {
				synctest.Test(t, func(t *testing.T) { newPlay(t, h, seed+uint64(i)).run() })
			}
		})
	}
}

// play is a Manager against one hostile server.
type play struct {
	t      *testing.T
	rng    *rand.Rand
	name   string
	server *Server
	m      *statusmanager.Manager
	began  time.Time
	actors []*actor
	deaf   bool // the Manager has no watch

	mu sync.Mutex // guards news of actors
}

// actor is a pod of a play.
type actor struct {
	pod      *v1.Pod
	name     string
	healthy  bool
	ended    bool
	hostile  string
	statuses int
	// said are the times of new statuses set by the caller. news are the times of all news,
	// including objects of the server. over are the times of the first accepted status with a
	// terminal phase.
	said, news, over []time.Duration
}

func newPlay(t *testing.T, h Harness, seed uint64) *play {
	rng := rand.New(rand.NewPCG(seed, 12))
	p := &play{t: t, rng: rng, name: fmt.Sprintf("seed %d", seed), began: time.Now(), deaf: rng.IntN(5) == 0}
	var err error
	if p.server, err = New(Options{Latency: latency}); err != nil {
		t.Fatal(err)
	}
	o := statusmanager.Options{
		Patcher: h.Patcher(p.server), Workers: 2 + rng.IntN(4), OnChange: p.changed, Jitter: p.jitter(),
	}
	if rng.IntN(3) == 0 && !p.deaf {
		o.Pods = p.server
	}
	if p.m, err = statusmanager.New(o); err != nil {
		t.Fatal(err)
	}
	if !p.deaf {
		p.server.Watch(p.m.Observed)
	}
	for i, name := range []string{"a", "b", "healthy"} {
		a := &actor{name: name, healthy: i == 2}
		a.pod = p.server.Create(actorPod(name))
		if !a.healthy {
			hostility := RandomHostility(rng)
			a.hostile = hostility.Name
			p.server.Poison(name, hostility)
		}
		p.actors = append(p.actors, a)
	}
	return p
}

func actorPod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name), Generation: 1},
		Spec: v1.PodSpec{
			Containers:     []v1.Container{{Name: "main", Image: "main:1"}},
			ReadinessGates: []v1.PodReadinessGate{{ConditionType: HostileGate}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}

// jitter returns a func that adds up to half to a delay, with a separate random source.
func (p *play) jitter() func(time.Duration) time.Duration {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(p.rng.Uint64(), 13))
	return func(d time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return d + time.Duration(rng.Int64N(int64(d/2)+1))
	}
}

// changed notes the news of a pod.
func (p *play) changed(c statusmanager.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.actors {
		if a.name == c.Pod.Name {
			a.news = append(a.news, time.Since(p.began))
			if podfacts.IsTerminal(c.New.Phase) && (c.Old == nil || !podfacts.IsTerminal(c.Old.Phase)) {
				a.over = append(a.over, time.Since(p.began))
			}
		}
	}
}

func (p *play) failf(format string, args ...any) {
	p.t.Helper()
	for _, a := range p.actors[:2] {
		p.name += fmt.Sprintf("; %s: %s", a.name, a.hostile)
	}
	p.t.Fatalf("%s: %s\n%s", p.name, fmt.Sprintf(format, args...), p.server.Journal())
}

func (p *play) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.m.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Error(err)
		}
	}()
	p.busyTime()
	wait(time.Minute + time.Duration(p.rng.IntN(60))*time.Second)
	healthy := p.actors[2]
	p.set(healthy)
	began := time.Now()
	p.await(healthy, 2*latency)
	if took := time.Since(began); took > 2*latency {
		p.failf("the healthy pod took %s", took)
	}
	wait(time.Minute)
	for _, a := range p.actors {
		p.checkBudget(a)
	}
	p.recover()
}

// busyTime changes statuses, rarely or all the time.
func (p *play) busyTime() {
	pause := []time.Duration{50 * time.Millisecond, time.Second, 5 * time.Second}[p.rng.IntN(3)]
	p.set(p.actors[2])
	for range 1 + p.rng.IntN(20) {
		a := p.actors[p.rng.IntN(len(p.actors))]
		p.set(a)
		wait(time.Duration(p.rng.Int64N(int64(pause))))
		if p.rng.IntN(10) == 0 && !a.healthy && !a.ended {
			p.end(a)
		}
		if p.rng.IntN(8) == 0 && !p.deaf { // a late watch event
			p.m.Observed(a.pod)
		}
	}
}

// wait lets virtual time pass.
func wait(d time.Duration) { _ = retry.Sleep(context.Background(), d) }

// set sets a new status of a pod, unless the pod has ended.
func (p *play) set(a *actor) {
	if a.ended {
		return
	}
	a.statuses++
	status := v1.PodStatus{Phase: v1.PodRunning, Message: fmt.Sprintf("status %d", a.statuses), ContainerStatuses: []v1.ContainerStatus{{
		Name: "main", ContainerID: "fake://main", Ready: p.rng.IntN(2) == 0, Started: new(true),
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
	}}}
	a.said = append(a.said, time.Since(p.began))
	if _, err := p.m.SetPodStatus(a.pod, status); err != nil {
		p.failf("setting the status of %s: %v", a.name, err)
	}
}

// end deletes a pod on the server and calls TerminatePod.
func (p *play) end(a *actor) {
	pod, err := p.server.Delete(a.pod.UID)
	if err != nil {
		p.failf("deleting %s: %v", a.name, err)
	}
	a.pod, a.ended = pod, true
	a.said = append(a.said, time.Since(p.began))
	if _, err := p.m.TerminatePod(pod); err != nil {
		p.failf("terminating %s: %v", a.name, err)
	}
}

func (p *play) await(a *actor, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := p.m.WaitSynced(ctx, a.pod.UID); err != nil {
		p.failf("%s after %s: %v", a.name, limit, err)
	}
}

// checkBudget compares the number of requests in every time span with the limit.
func (p *play) checkBudget(a *actor) {
	var at []time.Duration
	for _, e := range p.server.Journal() {
		if e.Pod.Name == a.name {
			at = append(at, e.At)
		}
	}
	for i, from := range at {
		free := min(count(a.said, 0, from), 1) // a status set before the span may be written within the span
		for j := i; j < len(at); j++ {
			limit := burst*(1+count(a.over, from, at[j])) + 1 + free + count(a.said, from, at[j]) + int((at[j]-from)/interval)
			if n := j - i + 1; n > limit {
				p.failf("%s: %d requests from %s to %s, not %d", a.name, n, from, at[j], limit)
			}
		}
	}
	quiet := 0
	for i := 1; i < len(at); i++ {
		if count(a.news, at[i-1]-interval, at[i]) > 0 {
			quiet = 0
			continue
		}
		if quiet++; quiet > burst && at[i]-at[i-1] < interval {
			p.failf("%s: without news, requests at %s and %s", a.name, at[i-1], at[i])
		}
	}
}

func count(list []time.Duration, from, to time.Duration) (n int) {
	for _, at := range list {
		if at >= from && at <= to {
			n++
		}
	}
	return n
}

// recover ends the hostility and expects that the server receives all statuses.
func (p *play) recover() {
	for _, a := range p.actors {
		p.server.Heal(a.name)
	}
	for _, a := range p.actors {
		p.set(a)
	}
	wait(interval + interval/2)
	synctest.Wait()
	for _, a := range p.actors {
		pod := p.server.Get(a.pod.UID)
		switch {
		case p.deaf: // a deaf Manager sees neither a second writer's change nor a reappeared pod
		case a.ended && pod != nil:
			p.expectGone(a)
		case a.ended:
		case pod == nil:
			p.failf("%s was deleted", a.name)
		case pod.Status.Message != fmt.Sprintf("status %d", a.statuses):
			p.failf("%s: the server has %q, not status %d", a.name, pod.Status.Message, a.statuses)
		}
	}
}

// expectGone waits for the deletion of a pod that ended during the hostility; no new status speeds
// up the deletion.
func (p *play) expectGone(a *actor) {
	wait(2 * time.Minute)
	if pod := p.server.Get(a.pod.UID); pod != nil {
		p.failf("%s should be deleted", a.name)
	}
}
