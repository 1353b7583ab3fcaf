// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// desk is a registry with one pod, web, and one container, c, of which c1 runs.
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

func (d *desk) arrive(id string) {
	c := &d.pod.Spec.Containers[0]
	d.reg.arrive(d.reg.record(d.pod), arrival{
		Instance: Instance{ID: id, StartedAt: d.now}, container: c, configs: configsOf(c, nil),
	}, d.now)
}

// respec changes the container's probes.
func (d *desk) respec(edit func(c *v1.Container)) {
	d.pod = d.pod.DeepCopy()
	edit(&d.pod.Spec.Containers[0])
	d.arrive("c1")
}

func (d *desk) probe(slot int) *probe { return d.reg.ids["c1"].probes[slot] }

// begin takes what is due and starts it.
func (d *desk) begin() (cancelled *error) {
	cancelled = new(error)
	d.reg.take(d.now, func(p *probe) { p.start(func(cause error) { *cancelled = cause }) })
	return cancelled
}

// settle ends the attempt of a slot.
func (d *desk) settle(slot int, v Verdict) judgement {
	j, counts := d.reg.settle(d.probe(slot), v, 0, d.now)
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

// TestNewsOutlivesAChangedSpec: what was established is told although the probe has another spec by now.
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
		require.True(t, d.settle(slot, no).published)
		d.respec(func(c *v1.Container) { probeOf(c, order[slot]).PeriodSeconds = 7 })
		d.reg.release(p, d.now, d.now)
		assert.Same(t, p, d.probe(slot))
		assert.Equal(t, StageOver, p.stage)
		assert.Equal(t, Failure, p.tally.published)
		assert.Empty(t, d.reg.agenda)
		assert.Len(t, d.told(), 1)
	}
}

// TestStoppedKindsStayStopped, also when the spec gets such a probe later.
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
	old := d.probe(slotReadiness)
	d.respec(func(c *v1.Container) { c.ReadinessProbe.PeriodSeconds = 7 })
	for _, cancel := range d.reg.cancels {
		cancel()
	}
	assert.ErrorIs(t, *cause, errSuperseded)
	_, counts := d.reg.settle(old, no, 0, d.now)
	assert.False(t, counts)
	d.reg.release(old, d.now, d.now)
	assert.Equal(t, d.probe(slotReadiness), d.reg.agenda.first())
	assert.Equal(t, d.now, d.reg.agenda.first().due)
	assert.Len(t, d.reg.agenda, 1)
}

// TestStopBetweenSettleAndRelease: the attempt is over, but the probe is not waiting yet.
func TestStopBetweenSettleAndRelease(t *testing.T) {
	d := newDesk(t, v1.Container{ReadinessProbe: once()})
	d.begin()
	p := d.probe(slotReadiness)
	d.settle(slotReadiness, yes)
	d.reg.stop(d.reg.ids["c1"], All)
	d.reg.release(p, d.now, d.now)
	assert.Equal(t, StageStopped, p.stage)
	assert.Empty(t, d.reg.agenda)
	assert.Empty(t, d.reg.cancels, "there is nothing to cancel any more")
	r, known := d.reg.result("c1", Readiness)
	assert.True(t, known)
	assert.Equal(t, Success, r, "what is established stays")
}
