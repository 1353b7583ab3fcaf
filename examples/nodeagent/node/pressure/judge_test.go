// SPDX-License-Identifier: Apache-2.0

package pressure_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
	"github.com/keelson-dev/keelson/internal/casetest"
)

const mib = 1 << 20

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func policy(t testing.TB, s pressure.Settings) pressure.Policy {
	t.Helper()
	all, err := pressure.Parse(s)
	require.NoError(t, err)
	return pressure.Policy{Thresholds: all, Hold: pressure.DefaultHold}
}

// timeline runs a pass every ten seconds. Each field is the free memory in MiB; "-" stands for no reading, "=" for
// the reading of the pass before, and a number after "x" repeats the field. Each line of the result is the time and
// the result of the passes up to the next change.
func timeline(p pressure.Policy, fields string) string {
	var out strings.Builder
	var state pressure.State
	var pass pressure.Pass
	last, now, reading := "", start, pressure.Reading{}
	for _, field := range strings.Fields(fields) {
		text, times, _ := strings.Cut(field, "x")
		n := 1
		_, _ = fmt.Sscan(times, &n)
		for range n {
			readings := map[pressure.Signal]pressure.Reading{}
			if text != "-" {
				if free := int64(0); text != "=" {
					_, _ = fmt.Sscan(text, &free)
					reading = pressure.Reading{Available: free * mib, Capacity: 1000 * mib, At: now}
				}
				readings[pressure.MemoryAvailable] = reading
			}
			state, pass = p.Judge(state, readings, now)
			line := fmt.Sprint(pass.Conditions, pass.Starved)
			if !pass.Next.IsZero() {
				line += " until " + pass.Next.Sub(start).String()
			}
			if line != last {
				fmt.Fprintf(&out, "%s: %s\n", now.Sub(start), line)
			}
			last = line
			now = now.Add(10 * time.Second)
		}
	}
	return out.String()
}

func TestTimelines(t *testing.T) {
	hard := pressure.Settings{Hard: texts{"memory.available": "100Mi"}}
	soft := pressure.Settings{Soft: texts{"memory.available": "200Mi"}, SoftGrace: texts{"memory.available": "30s"}}
	both := pressure.Settings{Hard: hard.Hard, Soft: soft.Soft, SoftGrace: soft.SoftGrace}
	reclaim := pressure.Settings{Hard: hard.Hard, Reclaim: texts{"memory.available": "50Mi"}}
	for _, tc := range []struct {
		name   string
		in     pressure.Settings
		fields string
		want   string
	}{
		{"strictly less", hard, "101 100 99", `0s: [] []
20s: [MemoryPressure] [memory.available<100Mi]
`},
		{"the condition stays for five minutes, the eviction ends at once", hard, "99 100x31", `0s: [MemoryPressure] [memory.available<100Mi]
10s: [MemoryPressure] [] until 5m0s
5m0s: [] []
`},
		{"the condition is true before the grace is over", soft, "199x5 300", `0s: [MemoryPressure] [] until 30s
30s: [MemoryPressure] [memory.available<200Mi for 30s]
50s: [MemoryPressure] [] until 5m40s
`},
		{"a break starts the grace anew", soft, "199x3 200 199x4", `0s: [MemoryPressure] [] until 30s
30s: [MemoryPressure] [] until 5m20s
40s: [MemoryPressure] [] until 1m10s
1m10s: [MemoryPressure] [memory.available<200Mi for 30s]
`},
		{"hard before soft", both, "199x4 99", `0s: [MemoryPressure] [] until 30s
30s: [MemoryPressure] [memory.available<200Mi for 30s]
40s: [MemoryPressure] [memory.available<100Mi memory.available<200Mi for 30s]
`},
		{"starved up to the threshold and the minimum reclaim", reclaim, "120 99 149 150 120", `0s: [] []
10s: [MemoryPressure] [memory.available<100Mi]
30s: [MemoryPressure] [] until 5m20s
`},
		{"the same reading does not starve twice", hard, "99 = = 98", `0s: [MemoryPressure] [memory.available<100Mi]
10s: [MemoryPressure] []
30s: [MemoryPressure] [memory.available<100Mi]
`},
		{"no reading, no pressure", hard, "- 99 -", `0s: [] []
10s: [MemoryPressure] [memory.available<100Mi]
20s: [MemoryPressure] [] until 5m10s
`},
	} {
		require.Equal(t, tc.want, timeline(policy(t, tc.in), tc.fields), tc.name)
	}
	held := policy(t, hard)
	held.Hold = 0
	require.Equal(t, "0s: [MemoryPressure] [memory.available<100Mi]\n10s: [] []\n", timeline(held, "99 100"))
}

func TestUrgency(t *testing.T) {
	p := policy(t, pressure.Settings{
		Hard: texts{"nodefs.available": "10%", "imagefs.available": "10%", "pid.available": "10%"},
		Soft: texts{"memory.available": "50%", "nodefs.inodesFree": "50%"}, SoftGrace: texts{"memory.available": "1ns", "nodefs.inodesFree": "1ns"},
	})
	var state pressure.State
	var pass pressure.Pass
	for second := range 2 {
		now := start.Add(time.Duration(second) * time.Second)
		at := func(free int64) pressure.Reading { return pressure.Reading{Available: free, Capacity: 1000, At: now} }
		state, pass = p.Judge(state, map[pressure.Signal]pressure.Reading{
			pressure.MemoryAvailable: at(499), pressure.NodeFSAvailable: at(50), pressure.ImageFSAvailable: at(49), pressure.PIDAvailable: at(50), pressure.NodeFSInodesFree: at(0),
		}, now)
	}
	var got []pressure.Signal
	for _, threshold := range pass.Starved {
		got = append(got, threshold.Signal)
	}
	require.Equal(t, []pressure.Signal{"memory.available", "imagefs.available", "nodefs.available", "pid.available", "nodefs.inodesFree"}, got)
	require.Equal(t, []v1.NodeConditionType{v1.NodeDiskPressure, v1.NodeMemoryPressure, v1.NodePIDPressure}, pass.Conditions)
}

func TestRelieved(t *testing.T) {
	p := policy(t, pressure.Settings{Hard: texts{"memory.available": "100"}, Reclaim: texts{"memory.available": "50"}})
	for free, want := range map[int64]bool{99: false, 149: false, 150: true} {
		require.Equal(t, want, p.Thresholds[0].IsRelieved(map[pressure.Signal]pressure.Reading{pressure.MemoryAvailable: {Available: free, Capacity: 1000}}), free)
	}
	require.False(t, p.Thresholds[0].IsRelieved(nil))
}

// history is a second implementation of Judge: it looks at all readings anew in each pass.
type history struct {
	at    []time.Time
	reads []map[pressure.Signal]pressure.Reading
}

// met returns for each pass whether the threshold was met, and whether it was active.
func (h history) met(threshold pressure.Threshold) (met, active []bool) {
	since := -1
	for i, readings := range h.reads {
		r, known := readings[threshold.Signal]
		limit := threshold.Below.Of(r.Capacity)
		if i > 0 && active[i-1] {
			limit += threshold.Reclaim.Of(r.Capacity)
		}
		m := known && r.Available < limit
		switch {
		case !m:
			since = -1
		case since < 0:
			since = i
		}
		met = append(met, m)
		active = append(active, m && h.at[i].Sub(h.at[since]) >= threshold.Grace)
	}
	return met, active
}

func (h history) conditions(p pressure.Policy) (all []v1.NodeConditionType) {
	now := h.at[len(h.at)-1]
	for _, c := range pressure.Conditions() {
		for _, threshold := range p.Thresholds {
			met, _ := h.met(threshold)
			for i := range met {
				if threshold.Signal.Condition() == c && met[i] && (now.Sub(h.at[i]) < p.Hold || i == len(met)-1) && !slices.Contains(all, c) {
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// Random readings: conditions and starved thresholds are those of the second implementation, and a pass at Next has a
// result of its own.
func TestJudgeAgainstHistory(t *testing.T) {
	for seed := range casetest.Rounds[uint64](300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		p := policy(t, pressure.Settings{
			Hard: texts{"memory.available": "20%", "nodefs.available": "300", "pid.available": "100"},
			Soft: texts{"memory.available": "40%", "nodefs.inodesFree": "50%"}, SoftGrace: texts{"memory.available": "45s", "nodefs.inodesFree": "2m"},
			Reclaim: texts{"memory.available": "10%", "nodefs.available": "200"},
		})
		p.Hold = time.Duration(rnd.IntN(200)) * time.Second
		var h history
		var state pressure.State
		now, level := start, map[pressure.Signal]int64{}
		for range 60 {
			readings := map[pressure.Signal]pressure.Reading{}
			for _, s := range pressure.Signals() {
				if rnd.IntN(3) == 0 {
					level[s] = rnd.Int64N(1000)
				}
				if rnd.IntN(20) > 0 {
					readings[s] = pressure.Reading{Available: level[s], Capacity: 1000, At: now}
				}
			}
			h.at, h.reads = append(h.at, now), append(h.reads, readings)
			before := state
			var pass pressure.Pass
			state, pass = p.Judge(state, readings, now)
			again, same := p.Judge(before, readings, now)
			require.Equal(t, pass, same, "a State is immutable")
			require.Equal(t, state, again)
			require.Equal(t, h.conditions(p), pass.Conditions, "seed %d at %s", seed, now.Sub(start))
			starved := map[pressure.Threshold]bool{}
			for _, threshold := range pass.Starved {
				starved[threshold] = true
			}
			for _, threshold := range p.Thresholds {
				_, active := h.met(threshold)
				require.Equal(t, active[len(active)-1], starved[threshold], "seed %d at %s: %s", seed, now.Sub(start), threshold)
			}
			require.True(t, pass.Next.IsZero() || pass.Next.After(now))
			if !pass.Next.IsZero() && rnd.IntN(2) == 0 {
				now = pass.Next
				continue
			}
			now = now.Add(time.Duration(1+rnd.IntN(30)) * time.Second)
		}
	}
}
