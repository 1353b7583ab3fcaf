// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// hung is a desk with an overdue, unjudged attempt in slot readiness.
func hung(t *testing.T) (*desk, *attempt) {
	d := newDesk(t, v1.Container{ReadinessProbe: once(), LivenessProbe: once()})
	d.begin()
	a := d.probe(slotReadiness).flight
	d.settle(slotLiveness, yes)
	d.reg.release(d.probe(slotLiveness).flight, d.now)
	d.now = d.now.Add(a.timeout + overrun)
	d.reg.take(d.now, func(*probe) {})
	require.Len(t, d.reg.overdue, 1)
	return d, a
}

// TestOverdueIsJudgedOnce: an attempt counts once, whatever happens between its deadline and its judgement.
func TestOverdueIsJudgedOnce(t *testing.T) {
	for name, meanwhile := range map[string]func(d *desk, a *attempt){
		"its handler has returned": func(d *desk, a *attempt) { d.settle(slotReadiness, yes) },
		"it was reported": func(d *desk, a *attempt) {
			d.settle(slotReadiness, yes)
			d.reg.release(a, d.now)
		},
		"the next is under way": func(d *desk, a *attempt) {
			d.settle(slotReadiness, yes)
			d.reg.release(a, d.now)
			d.now = d.now.Add(time.Second)
			d.begin()
			require.Equal(d.t, StageRunning, d.probe(slotReadiness).stage)
		},
		"the probe was stopped": func(d *desk, a *attempt) { d.reg.stop(d.reg.ids["c1"], Readiness) },
	} {
		t.Run(name, func(t *testing.T) {
			d, a := hung(t)
			meanwhile(d, a)
			again, _ := d.reg.settleOverdue(d.now)
			assert.Nil(t, again)
			assert.NotEqual(t, VerdictFailure, d.probe(slotReadiness).tally.verdict)
		})
	}
	d, a := hung(t)
	judged, j := d.reg.settleOverdue(d.now)
	assert.Same(t, a, judged)
	assert.Equal(t, Failure, j.counted)
	none, _ := d.reg.settleOverdue(d.now)
	assert.Nil(t, none)
}

// TestAHandlerReturnsWhileItsFailureIsReported: the next attempt waits for the report.
func TestAHandlerReturnsWhileItsFailureIsReported(t *testing.T) {
	d, a := hung(t)
	judged, _ := d.reg.settleOverdue(d.now)
	require.Same(t, a, judged)
	_, counts := d.reg.settle(a, yes, 0, d.now)
	assert.False(t, counts)
	assert.Equal(t, StageRunning, a.probe.stage)
	d.reg.release(a, d.now)
	assert.Equal(t, StageWaiting, a.probe.stage)
	assert.Equal(t, VerdictFailure, a.probe.tally.verdict)
}

// abandonAll begins every due attempt, and stops and restarts the container before the attempts return.
func (d *desk) abandonAll(generation int) (gone []*attempt) {
	d.begin()
	for _, in := range d.reg.ids {
		for _, p := range in.probes {
			if p != nil && p.flight != nil {
				gone = append(gone, p.flight)
			}
		}
	}
	d.arrive(fmt.Sprint("c1-", generation))
	return gone
}

// TestCrowdedIsOneProbeOfOneContainer: cancelled attempts in progress delay only their own probe, and only until they
// return.
func TestCrowdedIsOneProbeOfOneContainer(t *testing.T) {
	d := newDesk(t, v1.Container{ReadinessProbe: once()})
	var out []*attempt
	for generation := range mostAbandoned {
		require.Empty(t, d.reg.refused)
		out = append(out, d.abandonAll(generation)...)
	}
	require.Len(t, out, mostAbandoned)

	d.pod = d.pod.DeepCopy()
	d.pod.Spec.Containers[0].LivenessProbe = once()
	d.arrive("c1-6")
	require.Empty(t, d.abandonAll(7)[1:], "of the liveness probe alone")
	require.Len(t, d.reg.refused, 1)
	require.Equal(t, Readiness, d.reg.refused[0].kind)
	d.reg.refused = nil

	back := func(a *attempt) {
		_, counts := d.reg.settle(a, yes, 0, d.now)
		require.False(t, counts)
	}
	back(out[0])
	again := d.abandonAll(8)
	require.Len(t, again, 2, "one has returned, so one more may be out")
	d.begin()
	require.Len(t, d.reg.refused, 2, "two of each are out")
	for seat, n := range d.reg.out {
		assert.Equal(t, mostAbandoned, n, seat)
	}
}

// TestNothingStaysOfAttemptsThatReturned: no state of a removed pod stays for its hung handlers.
func TestNothingStaysOfAttemptsThatReturned(t *testing.T) {
	d := newDesk(t, v1.Container{ReadinessProbe: once(), LivenessProbe: once()})
	out := append(d.abandonAll(1), d.abandonAll(2)...)
	require.Len(t, out, 4)
	d.reg.removePod("web")
	for _, a := range out {
		d.reg.settle(a, no, 0, d.now)
	}
	assert.Empty(t, d.reg.out)
}

// TestRefused: a refused attempt counts as an attempt without a verdict, unless the probe was stopped meanwhile.
func TestRefused(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		d := newDesk(t, v1.Container{ReadinessProbe: once()})
		for generation := range mostAbandoned {
			d.abandonAll(generation)
		}
		d.begin()
		require.Len(t, d.reg.refused, 1)
		p := d.reg.refused[0]
		if stopped {
			d.reg.stop(p.instance, Readiness)
		}
		a, j := d.reg.settleRefused(1, d.now)
		if stopped {
			assert.Nil(t, a)
			assert.Equal(t, StageStopped, p.stage)
			continue
		}
		assert.Same(t, p, a.probe)
		assert.Equal(t, judgement{counted: Failure, run: 1, threshold: 1}, j)
		d.reg.release(a, d.now)
		assert.Equal(t, StageWaiting, p.stage)
		none, _ := d.reg.settleRefused(1, d.now)
		assert.Nil(t, none)
	}
}
