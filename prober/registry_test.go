// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// desk is a registry with one pod, web, whose only container c runs as instance c1.
type desk struct {
	t   *testing.T
	reg registry
	now time.Time
	pod *v1.Pod
}

func newDesk(t *testing.T, c v1.Container) *desk {
	c.Name = "c"
	d := &desk{t: t, reg: newRegistry(), now: time.Now(), pod: &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "web"}, Spec: v1.PodSpec{Containers: []v1.Container{c}},
	}}
	d.arrive("c1")
	return d
}

func (d *desk) arrive(id string) { d.arriveFrom(sourceStart, id) }

func (d *desk) arriveFrom(from source, id string) {
	c := &d.pod.Spec.Containers[0]
	d.reg.arrive(d.reg.record(d.pod), arrival{
		Instance: Instance{ID: id, StartedAt: d.now}, container: c, configs: configsOf(c, nil),
	}, from, d.now)
}

// respec changes the container's probes.
func (d *desk) respec(edit func(c *v1.Container)) {
	d.pod = d.pod.DeepCopy()
	edit(&d.pod.Spec.Containers[0])
	d.arrive("c1")
}

func (d *desk) probe(slot int) *probe { return d.reg.ids["c1"].probes[slot] }

// begin starts the due attempts.
func (d *desk) begin() (cancelled *error) {
	cancelled = new(error)
	d.reg.take(d.now, func(p *probe) {
		a := newAttempt(p, d.now)
		a.cancel = func(cause error) { *cancelled = cause }
		d.reg.start(a)
	})
	return cancelled
}

// settle ends the attempt of a slot.
func (d *desk) settle(slot int, v Verdict) judgement {
	j, counts := d.reg.settle(d.probe(slot).flight, v, 0, d.now)
	require.True(d.t, counts)
	return j
}

func (d *desk) told() []string {
	var all []string
	for u, ok := d.reg.tell(); ok; u, ok = d.reg.tell() {
		all = append(all, u.ID+" "+u.Type.String()+" "+u.Result.String())
	}
	return all
}

func once() *v1.Probe { return &v1.Probe{FailureThreshold: 1, PeriodSeconds: 1} }

// TestNothingIsToldOfWhatEnded: news that the sink did not get yet goes with the probe or the instance.
func TestNothingIsToldOfWhatEnded(t *testing.T) {
	for name, end := range map[string]func(d *desk){
		"stopped":  func(d *desk) { d.reg.stop(d.reg.ids["c1"], Readiness) },
		"replaced": func(d *desk) { d.arrive("c2") },
		"removed":  func(d *desk) { d.reg.removePod("web") },
	} {
		d := newDesk(t, v1.Container{ReadinessProbe: once()})
		d.begin()
		require.True(t, d.settle(slotReadiness, yes).published)
		end(d)
		assert.Empty(t, d.told(), name)
	}
	d := newDesk(t, v1.Container{ReadinessProbe: once()})
	d.begin()
	d.settle(slotReadiness, yes)
	assert.Equal(t, []string{"c1 Readiness Success"}, d.told(), "or the others could not fail")
	assert.Empty(t, d.told())
}

// TestNewsOutlivesAChangedSpec: an established result is reported although the probe has a new spec.
func TestNewsOutlivesAChangedSpec(t *testing.T) {
	d := newDesk(t, v1.Container{ReadinessProbe: once()})
	d.begin()
	d.settle(slotReadiness, yes)
	d.respec(func(c *v1.Container) { c.ReadinessProbe.PeriodSeconds = 7 })
	assert.Equal(t, []string{"c1 Readiness Success"}, d.told())
}

// TestVerdictOnADoomedInstanceStands, also if the spec changes between the attempt's end and the probe's.
func TestVerdictOnADoomedInstanceStands(t *testing.T) {
	for _, slot := range []int{slotLiveness, slotStartup} {
		d := newDesk(t, v1.Container{})
		d.respec(func(c *v1.Container) {
			if slot == slotLiveness {
				c.LivenessProbe = once()
			} else {
				c.StartupProbe = once()
				d.reg.drop(d.reg.ids["c1"]) // a startup probe that is new to a container is over
			}
		})
		d.begin()
		p := d.probe(slot)
		a := p.flight
		require.True(t, d.settle(slot, no).published)
		d.respec(func(c *v1.Container) { probeOf(c, order[slot]).PeriodSeconds = 7 })
		d.reg.release(a, d.now)
		assert.Same(t, p, d.probe(slot))
		assert.Equal(t, StageOver, p.stage)
		assert.Equal(t, Failure, p.tally.published)
		assert.Empty(t, d.reg.agenda)
		assert.Len(t, d.told(), 1)
	}
}

// TestStoppedKindsStayStopped, also when a later spec adds a probe of the kind.
func TestStoppedKindsStayStopped(t *testing.T) {
	d := newDesk(t, v1.Container{})
	d.reg.stop(d.reg.ids["c1"], Liveness)
	d.respec(func(c *v1.Container) { c.LivenessProbe, c.ReadinessProbe = once(), once() })
	assert.Equal(t, StageStopped, d.probe(slotLiveness).stage)
	assert.Equal(t, StageWaiting, d.probe(slotReadiness).stage)
}

// TestSpecChangeCancels: the attempt with the old spec is called off with a cause, and the next is due at once.
func TestSpecChangeCancels(t *testing.T) {
	d := newDesk(t, v1.Container{ReadinessProbe: once()})
	cause := d.begin()
	old := d.probe(slotReadiness).flight
	d.respec(func(c *v1.Container) { c.ReadinessProbe.PeriodSeconds = 7 })
	for _, cancel := range d.reg.cancels {
		cancel()
	}
	assert.ErrorIs(t, *cause, errSuperseded)
	_, counts := d.reg.settle(old, no, 0, d.now)
	assert.False(t, counts)
	assert.Equal(t, d.probe(slotReadiness), d.reg.agenda.first())
	assert.Equal(t, d.now, d.reg.agenda.first().due)
	assert.Len(t, d.reg.agenda, 1)
}

// TestStopBetweenSettleAndRelease: the attempt is over, but the probe is not waiting yet.
func TestStopBetweenSettleAndRelease(t *testing.T) {
	d := newDesk(t, v1.Container{ReadinessProbe: once()})
	d.begin()
	p := d.probe(slotReadiness)
	a := p.flight
	d.settle(slotReadiness, yes)
	d.reg.stop(d.reg.ids["c1"], All)
	d.reg.release(a, d.now)
	assert.Equal(t, StageStopped, p.stage)
	assert.Empty(t, d.reg.agenda)
	assert.Empty(t, d.reg.cancels, "there is nothing to cancel any more")
	r, known := d.reg.result("c1", Readiness)
	assert.True(t, known)
	assert.Equal(t, Success, r, "what is established stays")
}

// TestLateInstances: a Start about an earlier instance changes nothing, however many generations late it is. A sync about
// an earlier one is believed the second time in a row.
func TestLateInstances(t *testing.T) {
	for name, tc := range map[string]struct {
		starts, syncs string // in this order, of c1, c2, …; + is a Start among the syncs
		want          string
	}{
		"one generation late":         {"1 2 1", "", "2"},
		"two generations late":        {"1 2 3 1", "", "3"},
		"again and again":             {"1 2 3 4 2 1 3 2", "", "4"},
		"all the generations":         {"1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 1", "", "17"},
		"more than are remembered":    {"1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 1", "", "1"},
		"a new one":                   {"1 2", "3", "3"},
		"a sync two generations late": {"1 2 3", "1", "3"},
		"a sync that insists":         {"1 2 3", "1 1", "1"},
		"a Start does not confirm":    {"1 2 3", "1 +3 1", "1"},
		"nothing is sure after that":  {"1 2 3", "1 1 2", "2"},
		"syncs that do not agree":     {"1 2 3", "1 2 1", "3"},
		"a sync that knows":           {"1 2 3", "1 3 1", "3"},
		"a Start is no witness":       {"1 2 3 1 1 3 1", "", "3"},
		"an order that was wrong":     {"1 3 2", "3 3 2", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, v1.Container{ReadinessProbe: once()})
			for _, n := range strings.Fields(tc.starts) {
				d.arriveFrom(sourceStart, "c"+n)
			}
			for _, n := range strings.Fields(tc.syncs) {
				id, isStart := strings.CutPrefix(n, "+")
				from := sourceSync
				if isStart {
					from = sourceStart
				}
				d.arriveFrom(from, "c"+id)
			}
			require.Len(t, d.reg.ids, 1)
			assert.Contains(t, d.reg.ids, "c"+tc.want)
		})
	}
}

// TestAnAddressHurriesWhatHadNoVerdict, and nothing else does, nor anything else.
func TestAnAddressHurriesWhatHadNoVerdict(t *testing.T) {
	for _, tt := range []struct {
		before, now string
		hurried     bool
	}{{"", "10.0.0.1", true}, {"", "", false}, {"10.0.0.1", "10.0.0.1", false}, {"10.0.0.1", "10.0.0.2", false}, {"10.0.0.1", "", false}} {
		d := newDesk(t, v1.Container{ReadinessProbe: once(), LivenessProbe: once(), StartupProbe: once()})
		in := d.reg.ids["c1"]
		d.begin()
		d.settle(slotStartup, yes)
		d.reg.release(d.probe(slotStartup).flight, d.now)
		in.PodIP = tt.before
		answer := func(slot int, v Verdict) {
			a := d.probe(slot).flight
			d.settle(slot, v)
			d.reg.release(a, d.now)
		}
		d.begin()
		answer(slotReadiness, yes)
		answer(slotLiveness, none)
		d.now = d.now.Add(time.Millisecond)
		c := in.container
		renew := func() {
			d.reg.renew(in, arrival{Instance: Instance{ID: "c1", PodIP: tt.now}, container: c, configs: configsOf(c, nil)}, d.now)
		}
		renew()
		assert.Equal(t, tt.now, in.PodIP)
		assert.Equal(t, tt.hurried, d.probe(slotLiveness).due.Equal(d.now), tt)
		assert.False(t, d.probe(slotReadiness).due.Equal(d.now), "it has a verdict")
		if !tt.hurried {
			continue
		}
		assert.Same(t, d.probe(slotLiveness), d.reg.agenda.first(), "the next on the agenda")
		d.begin()
		overdue := d.probe(slotLiveness).due
		in.PodIP = ""
		renew()
		assert.Equal(t, overdue, d.probe(slotLiveness).due, "an attempt that is under way has its time")
	}
}

// TestProbesThatAreNew to a running container begin with the result the container had without the probe.
func TestProbesThatAreNew(t *testing.T) {
	for _, starting := range []bool{false, true} {
		d := newDesk(t, v1.Container{})
		if starting {
			d = newDesk(t, v1.Container{StartupProbe: once()})
		}
		d.respec(func(c *v1.Container) { c.LivenessProbe, c.ReadinessProbe = once(), once() })
		want := map[Type]Result{Liveness: Success, Readiness: Success}
		if starting {
			want[Readiness] = Failure
		}
		for kind, result := range want {
			got, known := d.reg.result("c1", kind)
			assert.True(t, known)
			assert.Equal(t, result, got, "%s while starting %t", kind, starting)
		}
	}
}

// TestTheNewestGraceIsTold: the sink may kill with the grace of the spec at that time.
func TestTheNewestGraceIsTold(t *testing.T) {
	d := newDesk(t, v1.Container{LivenessProbe: once()})
	d.begin()
	a := d.probe(slotLiveness).flight
	d.settle(slotLiveness, no)
	d.reg.release(a, d.now)
	d.respec(func(c *v1.Container) { c.LivenessProbe.TerminationGracePeriodSeconds = new(int64(7)) })
	u, ok := d.reg.tell()
	require.True(t, ok)
	require.NotNil(t, u.TerminationGracePeriodSeconds)
	assert.EqualValues(t, 7, *u.TerminationGracePeriodSeconds)
}

// TestNoNewsIsNoNews: a result already known to the sink is not reported again.
func TestNoNewsIsNoNews(t *testing.T) {
	d := newDesk(t, v1.Container{ReadinessProbe: once()})
	for _, v := range []Verdict{yes, no} {
		d.begin()
		a := d.probe(slotReadiness).flight
		d.settle(slotReadiness, v)
		d.reg.release(a, d.now)
		d.now = d.now.Add(time.Second)
	}
	assert.Empty(t, d.told())
	d.respec(func(c *v1.Container) { c.ReadinessProbe.PeriodSeconds = 7 })
	assert.Empty(t, d.told())
}

// TestTiesGoByArrival: probes due at the same time begin in the order of arrival.
func TestTiesGoByArrival(t *testing.T) {
	d := newDesk(t, v1.Container{ReadinessProbe: once()})
	want := []string{"c1"}
	for i := range 20 {
		id := fmt.Sprint("other", i)
		d.pod = d.pod.DeepCopy()
		d.pod.Spec.Containers = append(d.pod.Spec.Containers, v1.Container{Name: id, ReadinessProbe: once()})
		c := &d.pod.Spec.Containers[i+1]
		d.reg.arrive(d.reg.record(d.pod), arrival{
			Instance: Instance{ID: id, StartedAt: d.now}, container: c, configs: configsOf(c, nil),
		}, sourceStart, d.now)
		want = append(want, id)
	}
	var got []string
	d.reg.take(d.now, func(p *probe) { got = append(got, p.instance.ID) })
	assert.Equal(t, want, got)
}

// TestContainersOfAPod: each container has its own past, and is dropped with its spec.
func TestContainersOfAPod(t *testing.T) {
	d := newDesk(t, v1.Container{ReadinessProbe: once()})
	arrive := func(container int, id string) {
		c := &d.pod.Spec.Containers[container]
		d.reg.arrive(d.reg.record(d.pod), arrival{
			Instance: Instance{ID: id, StartedAt: d.now}, container: c, configs: configsOf(c, nil),
		}, sourceStart, d.now)
	}
	d.pod = d.pod.DeepCopy()
	for _, name := range []string{"d", "e"} {
		d.pod.Spec.Containers = append(d.pod.Spec.Containers, v1.Container{Name: name, Image: "old", ReadinessProbe: once()})
	}
	for _, id := range []string{"1", "2"} {
		arrive(0, "c"+id)
		arrive(1, "d"+id)
		arrive(2, "e"+id)
	}
	arrive(0, "c1")
	arrive(1, "d1")
	for _, id := range []string{"c2", "d2", "e2"} {
		assert.Contains(t, d.reg.ids, id, "a Start about its predecessor is late")
	}

	d.pod = d.pod.DeepCopy()
	d.pod.Spec.Containers = d.pod.Spec.Containers[2:]
	d.pod.Spec.Containers[0].Image = "new"
	d.reg.record(d.pod)
	assert.Len(t, d.reg.ids, 1)
	require.Contains(t, d.reg.ids, "e2")
	assert.Equal(t, "new", d.reg.ids["e2"].probes[slotReadiness].target().Container.Image)
	require.Len(t, d.reg.agenda, 1)
	assert.Same(t, d.reg.ids["e2"].probes[slotReadiness], d.reg.agenda.first())
}

// TestLateStartKeepsResults: the probes and results of the live instance stay.
func TestLateStartKeepsResults(t *testing.T) {
	d := newDesk(t, v1.Container{ReadinessProbe: once()})
	d.arrive("c2")
	d.arrive("c3")
	d.begin()
	p := d.reg.ids["c3"].probes[slotReadiness]
	d.reg.settle(p.flight, yes, 0, d.now)
	d.arrive("c1")
	assert.Same(t, p, d.reg.ids["c3"].probes[slotReadiness])
	r, known := d.reg.result("c3", Readiness)
	assert.True(t, known)
	assert.Equal(t, Success, r)
}
