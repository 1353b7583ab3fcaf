// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// scene is a call of a Manager, after a prelude.
type scene struct {
	name    string
	options func(p *theatre, o *statusmanager.Options)
	deaf    bool          // the Manager has no watch
	lag     time.Duration // of the watch
	static  bool
	gated   bool
	prelude func(p *theatre)
	call    func(p *theatre)
}

func runs(p *theatre)    { p.set(v1.PodRunning, running("main")) }
func becomes(p *theatre) { p.set(v1.PodRunning, ready("main")) }

var scenes = []scene{
	{name: "unknown pod", deaf: true, call: runs},
	{name: "unknown pod, no getter", deaf: true, call: runs, options: func(p *theatre, o *statusmanager.Options) {
		o.Patcher = patchOnly{p.wire}
	}},
	{name: "observed pod", prelude: runs, call: becomes},
	{name: "observed pod, no getter", prelude: runs, call: becomes, options: func(p *theatre, o *statusmanager.Options) {
		o.Patcher = patchOnly{p.wire}
	}},
	{name: "observed pod, setter", prelude: runs, call: becomes, options: func(p *theatre, o *statusmanager.Options) { o.Patcher = p.wire }},
	{name: "cached pod", deaf: true, prelude: runs, call: becomes, options: func(p *theatre, o *statusmanager.Options) { o.Pods = p }},
	{name: "cached pod of another agent", deaf: true, prelude: func(p *theatre) {
		p.change(func(pod *v1.Pod) { pod.Status = status(v1.PodRunning, running("main")) })
	}, call: (*theatre).terminate, options: func(p *theatre, o *statusmanager.Options) { o.Pods = p }},
	{name: "static pod", static: true, prelude: runs, call: becomes},
	{name: "cached static pod", deaf: true, static: true, prelude: runs, call: becomes, options: func(p *theatre, o *statusmanager.Options) { o.Pods = p }},
	{name: "deleted pod", prelude: func(p *theatre) {
		runs(p)
		p.delete()
	}, call: (*theatre).terminate},
	{name: "deleted pod, setter", prelude: func(p *theatre) {
		runs(p)
		p.delete()
	}, call: (*theatre).terminate, options: func(p *theatre, o *statusmanager.Options) { o.Patcher = p.wire }},
	{name: "held end", prelude: runs, call: func(p *theatre) {
		p.mayRun.Store(true)
		p.set(v1.PodSucceeded, exited("main", 0))
		time.AfterFunc(40*time.Second, func() { p.mayRun.Store(false) })
	}},
	{name: "held status", prelude: runs, call: becomes, options: func(p *theatre, o *statusmanager.Options) {
		o.Coalesce = func(statusmanager.Change) time.Duration {
			p.visit("Coalesce")
			return time.Second
		}
	}},
	{name: "pod with a late watch", lag: 100 * time.Millisecond, prelude: runs, call: becomes},
	{name: "cached pod that another writer changes", deaf: true, prelude: runs, call: func(p *theatre) {
		p.change(func(pod *v1.Pod) { pod.Status.Reason = "theirs" })
	}, options: func(p *theatre, o *statusmanager.Options) { o.Pods = p }},
	{name: "readiness gate", gated: true, prelude: becomes, call: func(p *theatre) {
		p.change(func(pod *v1.Pod) {
			pod.Status.Conditions = append(slices.Clone(pod.Status.Conditions), v1.PodCondition{Type: "example.com/gate", Status: v1.ConditionTrue})
		})
	}},
	{name: "used-up budget", prelude: runs, call: func(p *theatre) {
		for i := range 12 {
			p.change(func(pod *v1.Pod) { pod.Status.Reason = fmt.Sprint("theirs ", i) })
			time.Sleep(time.Second)
		}
		becomes(p)
	}},
}

// strikes are the answers to a struck request.
var strikes = []struct {
	name   string
	pod    bool // the answer is a pod: not for deletions
	answer answer
}{
	{"fails", false, func(*theatre, context.Context, request) (*v1.Pod, error) { return nil, errors.New("broken") }},
	{"fails with an empty pod", true, func(*theatre, context.Context, request) (*v1.Pod, error) { return &v1.Pod{}, errors.New("broken") }},
	{"is refused with another pod", true, func(*theatre, context.Context, request) (*v1.Pod, error) {
		return testPod("another"), apierrors.NewForbidden(v1.Resource("pods"), "web", nil)
	}},
	{"is lost", false, func(_ *theatre, ctx context.Context, do request) (*v1.Pod, error) {
		_, err := do(ctx)
		return nil, errors.Join(statustest.ErrReplyLost, err)
	}},
	{"conflicts", false, func(*theatre, context.Context, request) (*v1.Pod, error) {
		return nil, apierrors.NewConflict(v1.Resource("pods"), "web", nil)
	}},
	{"is refused", false, func(*theatre, context.Context, request) (*v1.Pod, error) {
		return nil, apierrors.NewForbidden(v1.Resource("pods"), "web", nil)
	}},
	{"is postponed", false, func(*theatre, context.Context, request) (*v1.Pod, error) {
		return nil, apierrors.NewTooManyRequests("later", 30)
	}},
	{"finds no pod", false, func(*theatre, context.Context, request) (*v1.Pod, error) {
		return nil, apierrors.NewNotFound(v1.Resource("pods"), "web")
	}},
	{"hangs", false, func(_ *theatre, ctx context.Context, _ request) (*v1.Pod, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}},
	{"is slow", false, func(_ *theatre, ctx context.Context, do request) (*v1.Pod, error) {
		time.Sleep(3 * time.Second)
		return do(ctx)
	}},
	{"shows another pod", true, func(_ *theatre, ctx context.Context, do request) (*v1.Pod, error) {
		pod, err := do(ctx)
		if err == nil {
			pod = pod.DeepCopy()
			pod.UID = "another"
		}
		return pod, err
	}},
	{"shows no pod", true, func(_ *theatre, ctx context.Context, do request) (*v1.Pod, error) {
		_, err := do(ctx)
		return nil, err
	}},
	{"shows an empty pod", true, func(_ *theatre, ctx context.Context, do request) (*v1.Pod, error) {
		_, err := do(ctx)
		return &v1.Pod{}, err
	}},
	{"shows the pod as before", true, func(p *theatre, ctx context.Context, do request) (*v1.Pod, error) {
		before := p.server.Pods()
		if _, err := do(ctx); err != nil || len(before) == 0 {
			return nil, err
		}
		return before[0], nil
	}},
	{"stores nothing", true, func(p *theatre, ctx context.Context, _ request) (*v1.Pod, error) {
		if before := p.server.Pods(); len(before) > 0 {
			return before[0], nil
		}
		return nil, nil
	}},
}

// event happens during a request or in a call of a seam.
type event struct {
	name   string
	happen func(p *theatre)
}

var events = []event{
	{"a new status", func(p *theatre) { p.set(v1.PodRunning, waiting("main", "CrashLoopBackOff")) }},
	{"the end", (*theatre).terminate},
	{"a deletion", func(p *theatre) { p.change(func(pod *v1.Pod) { pod.DeletionTimestamp = new(metav1.Now()) }) }},
	{"oblivion", (*theatre).forget},
	{"oblivion and a new status", func(p *theatre) {
		p.forget()
		p.set(v1.PodRunning, waiting("main", "CrashLoopBackOff"))
	}},
	{"another pod", (*theatre).replace},
	{"another writer", func(p *theatre) { p.change(func(pod *v1.Pod) { pod.Status.Reason = "theirs" }) }},
	{"another end", func(p *theatre) { p.change(func(pod *v1.Pod) { pod.Status.Phase = v1.PodFailed }) }},
	{"a resync", func(p *theatre) { p.Resync() }},
	{"a stop", func(p *theatre) { p.stop() }},
}

// before is the answer after an event in the middle of the request.
func (e event) before(then answer) answer {
	return func(p *theatre, ctx context.Context, do request) (*v1.Pod, error) {
		time.Sleep(100 * time.Millisecond)
		e.happen(p)
		time.Sleep(100 * time.Millisecond)
		return then(p, ctx, do)
	}
}

func succeeds(_ *theatre, ctx context.Context, do request) (*v1.Pod, error) { return do(ctx) }

// TestFailures makes each request in each scene fail, hang, come late, and be answered with another object, once or
// always. Further cases have an event during a request or in a call of a seam, or several of all that.
// In every case the server has a new status twelve minutes after its report, and Run ends with its context.
func TestFailures(t *testing.T) {
	for _, s := range scenes {
		kinds, seams := s.play(t, "", func(*theatre) {})
		for _, kind := range kinds {
			strike := func(name string, times int, a answer) {
				s.play(t, fmt.Sprint(kind, " ", name), func(p *theatre) {
					left := times
					p.wire.strike(func(k statusmanager.Request) answer {
						if left == 0 || k != kind {
							return nil
						}
						left--
						return a
					})
				})
			}
			for _, a := range strikes {
				if !a.pod || kind != statusmanager.RequestDelete {
					strike(a.name, 1, a.answer)
					strike(a.name+" always", -1, a.answer)
				}
			}
			for _, e := range events {
				strike("succeeds after "+e.name, 1, e.before(succeeds))
				strike("fails after "+e.name, 1, e.before(strikes[0].answer))
			}
		}
		for _, seam := range seams {
			for _, e := range events {
				s.play(t, seam+" sees "+e.name, func(p *theatre) {
					p.surprise(seam, e.happen)
				})
			}
		}
		for seed := range uint64(6) {
			s.play(t, fmt.Sprint("seed ", seed), func(p *theatre) {
				rng, left := rand.New(rand.NewPCG(seed, 0)), 6
				p.wire.strike(func(kind statusmanager.Request) answer {
					if left--; left < 0 {
						return nil
					}
					a := strikes[rng.IntN(len(strikes))]
					if a.pod && kind == statusmanager.RequestDelete {
						a = strikes[0]
					}
					if rng.IntN(3) > 0 {
						return a.answer
					}
					return events[rng.IntN(len(events)-1)].before(a.answer)
				})
			})
		}
	}
}

// play plays a case in a scene. The results are the kinds of requests, and the seams, that the scene uses.
func (s scene) play(t *testing.T, name string, arrange func(*theatre)) (kinds []statusmanager.Request, seams []string) {
	if name != "" && !casetest.Chosen(s.name+name) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		p := s.raise(t)
		if s.prelude != nil {
			s.prelude(p)
			time.Sleep(90 * time.Second)
		}
		p.Begin()
		p.surprise("", nil)
		arrange(p)
		earlier := len(p.server.Journal())
		s.call(p)
		go p.wait()
		time.Sleep(12 * time.Minute)
		synctest.Wait()
		for _, e := range p.server.Journal()[earlier:] {
			if !slices.Contains(kinds, e.Request) {
				kinds = append(kinds, e.Request)
			}
		}
		seams = slices.Sorted(maps.Keys(p.visited))
		p.wire.strike(nil)
		p.surprise("", nil)
		p.Begin()
		p.set(v1.PodRunning, waiting("main", "then"))
		time.Sleep(12 * time.Minute)
		p.expectTold(s.name + ", " + name + ":\n" + p.Lines(60))
		p.stop()
		require.NoError(t, <-p.done)
	})
	return kinds, seams
}

// expectTold: whatever has happened, the server has the newest status of a pod that it has and that has not ended.
func (p *theatre) expectTold(name string) {
	here, known := p.GetPodStatus(p.pod.UID)
	pod := p.server.Get(p.pod.UID)
	if !known || pod == nil || pod.DeletionTimestamp != nil || here.Phase != v1.PodRunning || p.stopped.Load() {
		return
	}
	require.Equal(p.t, "then", here.ContainerStatuses[0].State.Waiting.Reason, name)
	require.NotNil(p.t, pod.Status.ContainerStatuses[0].State.Waiting, name)
	require.Equal(p.t, "then", pod.Status.ContainerStatuses[0].State.Waiting.Reason, name)
}

// raise prepares the Manager, its server and a pod.
func (s scene) raise(t *testing.T) *theatre {
	server := newServer(t, statustest.Options{Latency: 10 * time.Millisecond})
	p := &theatre{t: t, server: server, wire: &hostile{Client: server.NewClient(0)}, pod: testPod("web"), visited: map[string]bool{}}
	p.wire.p = p
	p.pod.Spec.ReadinessGates = nil
	if s.gated {
		gate("example.com/gate")(p.pod)
	}
	o := statusmanager.Options{
		Patcher: getting{p.wire, p.wire}, Workers: 1, Jitter: func(d time.Duration) time.Duration { return d },
		Safety: statusmanager.SafetyFunc(func(types.UID) bool {
			p.visit("Safety")
			return p.mayRun.Load()
		}),
		OnRequest: func(ev statusmanager.RequestEvent) {
			p.visit("OnRequest")
			result := ""
			if ev.Err != nil {
				result = ": " + strings.ReplaceAll(ev.Err.Error(), "\n", "; ")
			}
			if ev.Refused {
				result += ", not stored"
			}
			if ev.Request == statusmanager.RequestPatch && ev.Err == nil {
				result += fmt.Sprintf(", %d B, latency %v", ev.Bytes, ev.Latency)
			}
			p.Note("%s %s %s, took %v, failures %d%s", ev.Request, ev.Pod, ev.Class, ev.Took, ev.Failures, result)
		},
		OnChange: func(c statusmanager.Change) {
			p.Note("status %d: %s", c.Version, c.New.Phase)
			p.visit("OnChange")
		},
		Logger: p.Logger(),
	}
	if s.options != nil {
		s.options(p, &o)
	}
	p.Manager = newManager(t, o)
	switch {
	case s.lag > 0:
		server.Watch(func(pod *v1.Pod) { time.AfterFunc(s.lag, func() { p.Observed(pod) }) })
	case !s.deaf:
		server.Watch(p.Observed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p.done = make(chan error, 1)
	p.stop = func() {
		p.stopped.Store(true)
		cancel()
	}
	go func() { p.done <- p.Run(ctx) }()
	if s.static {
		static(p.pod)
		server.CreateMirror(p.pod)
		return p
	}
	p.pod = server.Create(p.pod)
	return p
}
