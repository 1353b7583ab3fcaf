// SPDX-License-Identifier: Apache-2.0

package prober_test

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
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/prober"
)

var (
	seeds    = flag.Uint64("seeds", casetest.Rounds[uint64](600), "how many random histories TestRandomHistories plays")
	onlySeed = flag.Uint64("seed", 0, "play this one history only")
)

// TestRandomHistories starts, restarts, stops, loses and finds containers at random, with handlers of random behaviour.
// It checks that no attempt or update is about an ended instance or a stopped kind, that readiness and liveness wait
// for the success of startup, that no update comes twice, and that none follows a final result.
func TestRandomHistories(t *testing.T) {
	const batch = 150
	first, last := uint64(1), *seeds
	if *onlySeed != 0 {
		first, last = *onlySeed, *onlySeed
	}
	for from := first; from <= last; from += batch {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for seed := from; seed < from+batch && seed <= last; seed++ {
					newHistory(seed).play(t)
					if t.Failed() {
						t.Fatalf("again with: go test -run TestRandomHistories -seed %d", seed)
					}
				}
			})
		})
	}
}

// history plays one seed and tracks the expected state.
type history struct {
	seed   uint64
	rnd    *rand.Rand
	prober *prober.Prober
	pods   []*v1.Pod
	ids    int

	mu     sync.Mutex
	rules  []string // that were broken
	alive  map[string]*life
	flying map[string]int
	dice   *rand.Rand // of the handler
	asked  int
}

// life is the expected state of one instance.
type life struct {
	pod, container, id string
	stopped            prober.Type
	gated              bool // there is a startup probe that has not succeeded
	told               map[prober.Type]prober.Result
	adopted            bool
}

func newHistory(seed uint64) *history {
	h := &history{
		seed: seed, rnd: rand.New(rand.NewPCG(seed, 2)), dice: rand.New(rand.NewPCG(seed, 3)),
		alive: map[string]*life{}, flying: map[string]int{},
	}
	for i := range 3 {
		pod := podOf(fmt.Sprint("p", i), h.container("a"), h.container("b"))
		always := v1.ContainerRestartPolicyAlways
		sidecar := h.container("s")
		sidecar.RestartPolicy = &always
		pod.Spec.InitContainers = []v1.Container{{Name: "init"}, sidecar}
		h.pods = append(h.pods, pod)
	}
	return h
}

func (h *history) container(name string) v1.Container {
	c := v1.Container{Name: name}
	for _, kind := range []prober.Type{prober.Startup, prober.Readiness, prober.Liveness} {
		if h.rnd.IntN(3) > 0 {
			setProbe(&c, kind, h.spec())
		}
	}
	return c
}

func (h *history) spec() *v1.Probe {
	p := &v1.Probe{
		InitialDelaySeconds: h.rnd.Int32N(3), PeriodSeconds: 1 + h.rnd.Int32N(3), TimeoutSeconds: 1 + h.rnd.Int32N(2),
		SuccessThreshold: 1 + h.rnd.Int32N(2), FailureThreshold: 1 + h.rnd.Int32N(3),
	}
	if h.rnd.IntN(3) == 0 {
		p.Exec = &v1.ExecAction{}
	}
	return p
}

func (h *history) breaks(format string, args ...any) {
	h.rules = append(h.rules, fmt.Sprintf(format, args...))
}

// Probe is the handler: it checks that the attempt is allowed, and answers at random.
func (h *history) Probe(ctx context.Context, target prober.Target) (prober.Outcome, error) {
	// A probe with another spec is a new probe: its first attempt may overlap the last, cancelled attempt of the old
	// probe.
	key := fmt.Sprintf("%s %s %p", target.Instance.ID, target.Type, target.Probe)
	h.mu.Lock()
	h.asked++
	h.check("asked", target.Instance.ID, target.Type)
	h.flying[key]++
	if h.flying[key] > 1 {
		h.breaks("two attempts at once of %s", key)
	}
	verdict, takes := prober.Verdict(h.dice.IntN(4)), time.Duration(0)
	if h.dice.IntN(2) == 0 {
		takes = time.Duration(h.dice.IntN(2500)) * time.Millisecond
	}
	h.mu.Unlock()
	cut := false
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		cut = true
	}
	h.mu.Lock()
	h.flying[key]--
	h.mu.Unlock()
	if cut || verdict == prober.VerdictNone {
		return prober.Outcome{}, errors.New("no luck")
	}
	return prober.Outcome{Verdict: verdict}, nil
}

// check checks the invariants of every attempt and update.
func (h *history) check(what, id string, kind prober.Type) {
	l, ok := h.alive[id]
	switch {
	case !ok:
		h.breaks("%s about %s of %s, which is gone", what, kind, id)
	case l.stopped&kind != 0:
		h.breaks("%s about %s of %s, which was stopped", what, kind, id)
	case l.told[prober.Liveness] == prober.Failure && kind == prober.Liveness,
		l.told[prober.Startup] != prober.Unknown && kind == prober.Startup:
		h.breaks("%s about %s of %s after the last word", what, kind, id)
	case l.gated && kind != prober.Startup && what == "told":
		h.breaks("told about %s of %s before it was started", kind, id)
	}
}

// ProbeResult is the sink.
func (h *history) ProbeResult(u prober.Update) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.check("told", u.ID, u.Type)
	l := h.alive[u.ID]
	if l == nil {
		return
	}
	if l.told[u.Type] == u.Result {
		h.breaks("told %s of %s twice", u.Type, u.ID)
	}
	l.told[u.Type] = u.Result
	if u.Type == prober.Startup && u.Result == prober.Success {
		l.gated = false
	}
}

func (h *history) play(t *testing.T) {
	p, err := prober.New(prober.Options{
		Handler: h, Sink: h,
		ErrorsAsFailureAfter: h.rnd.IntN(3), OnAttempt: h.attempted,
	})
	require.NoError(t, err)
	p.Narrow(1+h.rnd.IntN(6), 1+h.rnd.IntN(3))
	h.prober = p
	stop := run(t, p)
	for range 60 {
		h.step()
		if h.rnd.IntN(3) > 0 {
			time.Sleep(time.Duration(h.rnd.IntN(4000)) * time.Millisecond)
		}
		synctest.Wait()
		h.look()
	}
	for _, pod := range h.pods {
		h.gone(func(l *life) bool { return l.pod == pod.Name }, func() { p.RemovePod(pod.UID) })
	}
	require.Empty(t, p.Snapshot())
	synctest.Wait()
	asked := h.asked
	time.Sleep(time.Hour)
	stop()
	require.Equal(t, asked, h.asked, "somebody was asked when all was gone")
	require.Empty(t, h.rules, "seed %d", h.seed)
}

// attempted checks that only startup attempts count before startup has succeeded.
func (h *history) attempted(a prober.Attempt) {
	if a.Target.Type == prober.Startup || a.Target.Container.StartupProbe == nil {
		return
	}
	if r, known := h.prober.Result(a.Target.Instance.ID, prober.Startup); known && r != prober.Success {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.breaks("%s of %s counted before it was started", a.Target.Type, a.Target.Instance.ID)
	}
}

// look checks the statuses of all living instances.
func (h *history) look() {
	for _, pod := range h.pods {
		for _, l := range h.living(pod.Name) {
			s := v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{running(l.container, l.id)}}
			h.prober.UpdatePodStatus(pod, &s)
			got := s.ContainerStatuses[0]
			if got.Ready && !*got.Started {
				h.breaks("%s is ready but not started", l.id)
			}
		}
	}
}

func (h *history) living(pod string) map[string]*life {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[string]*life{}
	for _, l := range h.alive {
		if l.pod == pod {
			all[l.container] = l
		}
	}
	return all
}

// gone calls the Prober; afterwards no attempt or update may be about the chosen instances.
func (h *history) gone(chosen func(*life) bool, call func()) {
	call()
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, l := range h.alive {
		if chosen(l) {
			delete(h.alive, id)
		}
	}
}

// step makes one random step.
func (h *history) step() {
	pod := h.pods[h.rnd.IntN(len(h.pods))]
	name := []string{"a", "b", "s"}[h.rnd.IntN(3)]
	living := h.living(pod.Name)
	switch h.rnd.IntN(10) {
	case 0, 1, 2:
		h.start(pod, name)
	case 3:
		h.add(pod, living, name)
	case 4:
		h.prober.AddPod(pod, nil)
	case 5:
		if l := living[name]; l != nil {
			h.stop(l, []prober.Type{prober.Liveness | prober.Startup, prober.Readiness, prober.All}[h.rnd.IntN(3)])
		}
	case 6:
		// The pod has ended; a new pod takes its place.
		h.gone(func(l *life) bool { return l.pod == pod.Name }, func() { h.prober.RemovePod(pod.UID) })
	case 7:
		h.gone(func(l *life) bool { return l.pod != pod.Name }, func() {
			h.prober.CleanupPods(func(uid types.UID) bool { return uid == pod.UID })
		})
	case 8:
		h.prober.Stop("nobody", prober.All)
		if l := living[name]; l != nil { // a late call about an instance that ended long ago
			h.prober.Stop(l.id+"-before", prober.All)
		}
	case 9:
		h.respec(pod, living)
	}
}

// begin makes the truth about a new instance known, before the Prober is told.
func (h *history) begin(pod *v1.Pod, name string) prober.Instance {
	h.ids++
	in := prober.Instance{
		ID: fmt.Sprintf("%s-%s-%d", pod.Name, name, h.ids), PodIP: "10.0.0.1",
		StartedAt: time.Now().Add(-time.Duration(h.rnd.IntN(2000)) * time.Millisecond),
		Adopted:   h.rnd.IntN(4) == 0, Started: h.rnd.IntN(2) == 0, Ready: h.rnd.IntN(2) == 0,
	}
	l := &life{pod: pod.Name, container: name, id: in.ID, told: map[prober.Type]prober.Result{}, adopted: in.Adopted}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		if c.Name == name && c.StartupProbe != nil && !(in.Adopted && in.Started) {
			l.gated = true
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alive[in.ID] = l
	return in
}

func (h *history) start(pod *v1.Pod, name string) {
	before := h.living(pod.Name)[name]
	in := h.begin(pod, name)
	h.gone(func(l *life) bool { return l == before }, func() { h.prober.Start(pod, name, in) })
	if before != nil && h.rnd.IntN(2) == 0 {
		h.prober.Start(pod, name, prober.Instance{ID: before.id, StartedAt: time.Now()}) // an edge that comes late
	}
}

// add is a sync in which a container may have ended or have a new instance.
func (h *history) add(pod *v1.Pod, living map[string]*life, name string) {
	found := map[string]prober.Instance{}
	for container, l := range living {
		found[container] = prober.Instance{ID: l.id, StartedAt: time.Now(), PodIP: "10.0.0.1"}
	}
	before := living[name]
	switch h.rnd.IntN(3) {
	case 0:
		before = nil // as it was
	case 1:
		delete(found, name)
	case 2:
		found[name] = h.begin(pod, name)
	}
	h.gone(func(l *life) bool { return l == before }, func() { h.prober.AddPod(pod, found) })
}

func (h *history) stop(l *life, kinds prober.Type) {
	h.prober.Stop(l.id, kinds)
	h.mu.Lock()
	defer h.mu.Unlock()
	l.stopped |= kinds
}

// respec changes existing probes. A startup probe may be removed.
func (h *history) respec(pod *v1.Pod, living map[string]*life) {
	next := pod.DeepCopy()
	opened := map[string]bool{}
	for _, list := range [][]v1.Container{next.Spec.Containers, next.Spec.InitContainers} {
		for i := range list {
			c := &list[i]
			if c.LivenessProbe != nil && h.rnd.IntN(2) == 0 {
				c.LivenessProbe = h.spec()
			}
			if c.ReadinessProbe != nil && h.rnd.IntN(2) == 0 {
				c.ReadinessProbe = h.spec()
			}
			if c.StartupProbe != nil && h.rnd.IntN(4) == 0 {
				c.StartupProbe, opened[c.Name] = nil, true
			}
		}
	}
	h.mu.Lock()
	for name, l := range living {
		if opened[name] {
			l.gated = false
		}
	}
	h.mu.Unlock()
	for i := range h.pods {
		if h.pods[i] == pod {
			h.pods[i] = next
		}
	}
	h.prober.AddPod(next, nil)
}
