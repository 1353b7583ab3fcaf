// SPDX-License-Identifier: Apache-2.0

package prober_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/prober"
)

// theatre is a Prober whose handler and sink can be hostile, with a pod.
type theatre struct {
	casetest.Notes
	t      *testing.T
	prober *prober.Prober
	pod    *v1.Pod
	in     prober.Instance
	stop   context.CancelFunc

	mu     sync.Mutex
	choose func(call string) reaction
	told   map[string]prober.Result // by container and type
	counts map[string]int
}

// reaction replaces the answer of a handler.
type reaction func(p *theatre, ctx context.Context) (prober.Outcome, error)

func (p *theatre) chosen(call string) reaction {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[call]++
	if p.choose == nil {
		return nil
	}
	return p.choose(fmt.Sprint(call, " ", p.counts[call]))
}

func (p *theatre) Probe(ctx context.Context, t prober.Target) (out prober.Outcome, err error) {
	out = prober.Outcome{Verdict: prober.VerdictSuccess, Output: "ok"}
	began := time.Now()
	deadline, _ := ctx.Deadline()
	if other := p.chosen(t.Type.String()); other != nil {
		out, err = other(p, ctx)
	} else {
		time.Sleep(3 * time.Millisecond)
	}
	p.Note("%s of %s at %q, limit %v, took %v: %s %v", t.Type, t.Instance.ID, t.Instance.PodIP, deadline.Sub(began), time.Since(began), out.Verdict, err)
	return out, err
}

func (p *theatre) ProbeResult(u prober.Update) {
	grace := "-"
	if u.TerminationGracePeriodSeconds != nil {
		grace = fmt.Sprint(*u.TerminationGracePeriodSeconds)
	}
	p.mu.Lock()
	p.told[fmt.Sprint(u.ID, " ", u.Type)] = u.Result
	p.mu.Unlock()
	p.Note("update: %s %s of %s/%s %s: %s, grace %s", u.ID, u.Type, u.Pod.Name, u.Container, u.PodUID, u.Result, grace)
	if other := p.chosen("Sink"); other != nil {
		_, _ = other(p, p.t.Context())
	}
}

func (p *theatre) Event(_ apiruntime.Object, kind, reason, message string) {
	p.Note("event %s %s: %s", kind, reason, message)
}

func (p *theatre) attempted(a prober.Attempt) {
	p.Note("attempt: %s %s, %s, tries %d, run %d of %d, repeated %t, published %t, late %v, took %v: %v", a.Target.Type, a.Verdict, a.Result, a.Tries,
		a.Run, a.Threshold, a.Repeated, a.Published, a.Lateness(), a.Duration(), a.Err)
}

// sync is what a caller does at each sync of the pod.
func (p *theatre) sync() { p.prober.AddPod(p.pod, map[string]prober.Instance{"web": p.in}) }

func (p *theatre) edit(edit func(c *v1.Container)) {
	p.pod = p.pod.DeepCopy()
	edit(&p.pod.Spec.Containers[0])
	p.sync()
}

func says(v prober.Verdict) reaction {
	return func(*theatre, context.Context) (prober.Outcome, error) {
		time.Sleep(3 * time.Millisecond)
		return prober.Outcome{Verdict: v, Output: "says so"}, nil
	}
}

var strikes = []struct {
	name  string
	react reaction
}{
	{"fails", says(prober.VerdictFailure)},
	{"warns", says(prober.VerdictWarning)},
	{"says nothing", says(prober.VerdictNone)},
	{"says nonsense", says(99)},
	{"errs", func(*theatre, context.Context) (prober.Outcome, error) {
		time.Sleep(3 * time.Millisecond)
		return prober.Outcome{Verdict: prober.VerdictSuccess}, errors.New("broken")
	}},
	{"hangs", func(_ *theatre, ctx context.Context) (prober.Outcome, error) {
		<-ctx.Done()
		return prober.Outcome{}, ctx.Err()
	}},
	{"succeeds too late", func(_ *theatre, ctx context.Context) (prober.Outcome, error) {
		<-ctx.Done()
		time.Sleep(3 * time.Millisecond)
		return prober.Outcome{Verdict: prober.VerdictSuccess}, nil
	}},
	{"ignores its limit", func(*theatre, context.Context) (prober.Outcome, error) {
		time.Sleep(7 * time.Second)
		return prober.Outcome{Verdict: prober.VerdictSuccess}, nil
	}},
	{"is slow", func(*theatre, context.Context) (prober.Outcome, error) {
		time.Sleep(700 * time.Millisecond)
		return prober.Outcome{Verdict: prober.VerdictSuccess, Output: strings.Repeat("long ", 5000)}, nil
	}},
}

// events happen during an attempt, or a call of the sink.
var events = []struct {
	name   string
	happen func(p *theatre)
}{
	{"Stop of all", func(p *theatre) { p.prober.Stop("id-1", prober.All) }},
	{"Stop of readiness", func(p *theatre) { p.prober.Stop("id-1", prober.Readiness) }},
	{"Stop of another", func(p *theatre) { p.prober.Stop("id-9", prober.All) }},
	{"StopLivenessAndStartup", func(p *theatre) { p.prober.StopLivenessAndStartup("uid") }},
	{"RemovePod", func(p *theatre) { p.prober.RemovePod("uid") }},
	{"RemovePod and AddPod", func(p *theatre) {
		p.prober.RemovePod("uid")
		p.sync()
	}},
	{"CleanupPods", func(p *theatre) { p.prober.CleanupPods(func(types.UID) bool { return false }) }},
	{"CleanupPods of others", func(p *theatre) { p.prober.CleanupPods(func(uid types.UID) bool { return uid == "uid" }) }},
	{"the end of the container", func(p *theatre) { p.prober.AddPod(p.pod, map[string]prober.Instance{}) }},
	{"another instance", func(p *theatre) {
		p.in.ID, p.in.StartedAt = "id-2", time.Now()
		p.sync()
	}},
	{"a start of another instance", func(p *theatre) {
		p.in.ID, p.in.StartedAt = "id-2", time.Now()
		p.prober.Start(p.pod, "web", p.in)
	}},
	{"a second start", func(p *theatre) { p.prober.Start(p.pod, "web", p.in) }},
	{"an address", func(p *theatre) {
		p.in.PodIP = "10.0.0.2"
		p.sync()
	}},
	{"another threshold", func(p *theatre) {
		p.edit(func(c *v1.Container) {
			for _, probe := range []*v1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
				if probe != nil {
					probe.FailureThreshold, probe.PeriodSeconds = 1, 5
				}
			}
		})
	}},
	{"no probes", func(p *theatre) {
		p.edit(func(c *v1.Container) { c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = nil, nil, nil })
	}},
	{"a status", func(p *theatre) {
		s := &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{
			Name: "web", ContainerID: p.in.ID, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		}}}
		p.prober.UpdatePodStatus(p.pod, s)
		p.Note("status: started %t, ready %t", *s.ContainerStatuses[0].Started, s.ContainerStatuses[0].Ready)
	}},
	{"the end", func(p *theatre) { p.stop() }},
}

func probeOf(initial, period, timeout, success, failure int32) *v1.Probe {
	return &v1.Probe{
		InitialDelaySeconds: initial, PeriodSeconds: period, TimeoutSeconds: timeout, SuccessThreshold: success, FailureThreshold: failure,
		ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{}},
	}
}

// scenes are containers with probes.
var scenes = []struct {
	name    string
	edit    func(c *v1.Container)
	in      prober.Instance
	options func(o *prober.Options)
}{
	{name: "all probes", edit: func(c *v1.Container) {
		c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = probeOf(2, 1, 1, 1, 3), probeOf(0, 2, 1, 2, 2), probeOf(0, 3, 2, 1, 2)
		c.LivenessProbe.TerminationGracePeriodSeconds = new(int64(7))
	}},
	{name: "readiness and liveness", edit: func(c *v1.Container) {
		c.ReadinessProbe, c.LivenessProbe = probeOf(3, 2, 1, 2, 2), probeOf(5, 3, 2, 1, 2)
	}},
	{name: "adopted", in: prober.Instance{Adopted: true, Started: true, Ready: true}, edit: func(c *v1.Container) {
		c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = probeOf(2, 1, 1, 1, 3), probeOf(0, 2, 1, 1, 2), probeOf(0, 3, 2, 1, 2)
	}},
	{name: "errors as failures", edit: func(c *v1.Container) {
		c.ReadinessProbe, c.LivenessProbe = probeOf(0, 2, 1, 1, 1), probeOf(0, 3, 2, 1, 2)
	}, options: func(o *prober.Options) { o.ErrorsAsFailureAfter = 2 }},
	{name: "no sink", edit: func(c *v1.Container) {
		c.StartupProbe, c.ReadinessProbe = probeOf(0, 1, 1, 1, 3), probeOf(0, 2, 1, 1, 2)
	},
		options: func(o *prober.Options) { o.Sink = nil }},
}

// TestHostileSeams makes each attempt in each scene fail, warn, err, hang, come late and lie, the first time, the third
// time and always, and lets the calls of a caller come in the middle of an attempt, or of a call of the sink.
// In every case the sink was told the last result of each probe, and Run ends with its context and leaves no goroutine.
func TestHostileSeams(t *testing.T) {
	for _, s := range scenes {
		play := func(name string, choose func(call string) reaction) (calls map[string]int) {
			synctest.Test(t, func(t *testing.T) {
				p := &theatre{t: t, counts: map[string]int{}, told: map[string]prober.Result{}, choose: choose, in: s.in}
				p.pod = &v1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "uid"},
					Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "web"}}},
				}
				s.edit(&p.pod.Spec.Containers[0])
				o := prober.Options{
					Handler: p, Sink: p, Events: p, OnAttempt: p.attempted, Logger: p.Logger(),
					Jitter: func(period time.Duration) time.Duration { return period / 2 },
					Tune: func(_ *v1.Pod, _ *v1.Container, kind prober.Type, spec prober.Timing) prober.Timing {
						spec.Period += time.Duration(kind) * 7 * time.Millisecond // no two attempts at an instant
						return spec
					},
				}
				if s.options != nil {
					s.options(&o)
				}
				var err error
				p.prober, err = prober.New(o)
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				p.stop = cancel
				done := make(chan error, 1)
				go func() { done <- p.prober.Run(ctx) }()
				p.Begin()
				p.in.ID = "id-1"
				if p.in.StartedAt = time.Now(); p.in.Adopted {
					p.in.StartedAt = time.Now().Add(-time.Hour)
				}
				p.mu.Lock() // no reaction of the first attempt before the end of the setup
				p.prober.Start(p.pod, "web", p.in)
				p.sync()
				for _, kind := range []prober.Type{prober.Startup, prober.Readiness, prober.Liveness} {
					p.told[fmt.Sprint(p.in.ID, " ", kind)], _ = p.prober.Result(p.in.ID, kind)
				}
				p.mu.Unlock()
				time.Sleep(21*time.Second + 500*time.Millisecond)
				synctest.Wait()
				for _, one := range p.prober.Snapshot() {
					p.Note("state: %s %s %s %s, %s, run %d, errors %d of %d, due %s", one.Pod, one.Container, one.ID, one.Type, one.Stage,
						one.Run, one.Errors, one.Errored, p.Since(one.Due))
				}
				for _, kind := range []prober.Type{prober.Startup, prober.Readiness, prober.Liveness} {
					result, known := p.prober.Result(p.in.ID, kind)
					p.Note("result of %s: %s %t", kind, result, known)
					if told, ok := p.told[fmt.Sprint(p.in.ID, " ", kind)]; ok && known && s.name != "no sink" {
						require.Equal(t, told, result, "%s, %s:\n%s", s.name, name, p.Lines(100))
					}
				}
				p.Note("dirty: %s", p.prober.Take())
				cancel()
				require.NoError(t, <-done)
				p.Note("ended")
				calls = p.counts
			})
			return calls
		}
		calls := play("", nil)
		for _, seam := range []string{"Startup", "Readiness", "Liveness", "Sink"} {
			if calls[seam] == 0 {
				continue
			}
			struck := func(name string, nth int, a reaction) {
				play(fmt.Sprint(seam, " ", nth, " ", name), func(call string) reaction {
					if call == fmt.Sprint(seam, " ", nth) || nth == 0 && strings.HasPrefix(call, seam) {
						return a
					}
					return nil
				})
			}
			for _, strike := range strikes {
				if seam == "Sink" && !strings.Contains(strike.name, "limit") {
					continue
				}
				for _, nth := range []int{1, 3, 0} {
					struck(strike.name, nth, strike.react)
				}
			}
			for _, e := range events {
				for _, nth := range []int{1, 2} {
					struck("sees "+e.name, nth, func(p *theatre, _ context.Context) (prober.Outcome, error) {
						time.Sleep(time.Millisecond)
						e.happen(p)
						time.Sleep(time.Millisecond)
						return prober.Outcome{Verdict: prober.VerdictFailure, Output: "afterwards"}, nil
					})
				}
			}
		}
	}
}
