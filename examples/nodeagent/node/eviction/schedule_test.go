// SPDX-License-Identifier: Apache-2.0

package eviction_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/eviction"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
	"github.com/keelson-dev/keelson/internal/casetest"
)

var schedules = flag.Int("schedules", casetest.Rounds(200), "how many random schedules TestSchedules plays")

// change is a change of the node's conditions.
type change struct {
	at         time.Time
	conditions []v1.NodeConditionType
}

// TestSchedules plays half an hour of random usage, with failing and hanging calls in every second schedule. Critical
// pods stay, disk space is freed before an eviction, one pod ends at a time, and the conditions are true and do not
// flap.
func TestSchedules(t *testing.T) {
	for seed := range uint64(*schedules) {
		synctest.Test(t, func(t *testing.T) {
			w := &world{rnd: rand.New(rand.NewPCG(seed, 3)), faults: seed%2 == 1}
			w.layout.ImagesApart = w.rnd.IntN(2) == 0
			p := policy(t, pressure.Settings{
				Hard: texts{"memory.available": "100", "nodefs.available": "10%", "imagefs.available": "15%", "nodefs.inodesFree": "5%", "pid.available": "50"},
				Soft: texts{"memory.available": "250"}, SoftGrace: texts{"memory.available": "40s"},
				Reclaim: texts{"memory.available": "50", "nodefs.available": "5%"},
			})
			p.MaxGrace = time.Duration(w.rnd.IntN(3)-1) * 20 * time.Second
			var changes []change
			m, err := eviction.New(eviction.Options{Policy: p, Observer: w, Hooks: eviction.Hooks{
				Conditions: func(c []v1.NodeConditionType) { changes = append(changes, change{time.Now(), c}) },
			}})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- m.Run(ctx, w) }()
			w.after(0)
			for range 600 {
				w.step()
				w.after(3 * time.Second)
			}
			cancel()
			require.NoError(t, <-done)
			require.NoError(t, w.judge(p, changes), "seed %d", seed)
		})
	}
}

// step changes the world at random.
func (w *world) step() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range slices.Clone(w.pods) {
		switch {
		case g.done != nil && !g.stuck && w.rnd.Int64N(g.grace+1) == 0, g.done == nil && w.rnd.IntN(300) == 0:
			w.end(g)
		case w.rnd.IntN(20) == 0:
			for _, n := range []*int64{&g.memory, &g.root, &g.logs, &g.volume, &g.pids, &g.inode} {
				*n = w.rnd.Int64N(200)
			}
		}
	}
	if w.rnd.IntN(20) == 0 && len(w.pods) < 12 {
		w.add(func(g *guest) {
			g.memory, g.pids, g.inode, g.root = w.rnd.Int64N(150), w.rnd.Int64N(100), w.rnd.Int64N(100), w.rnd.Int64N(60)
			g.pod.Spec.Priority = new(w.rnd.Int32N(3))
			if w.rnd.IntN(6) == 0 {
				*g.pod.Spec.Priority = 2_000_000_000
			}
			g.pod.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = quantity(w.rnd.Int64N(150))
		})
	}
	w.images += w.rnd.Int64N(8)
	w.system = w.rnd.Int64N(100)
}

// judge looks at the whole history of a schedule.
func (w *world) judge(p pressure.Policy, changes []change) error {
	ended := map[string]bool{}
	for _, e := range w.journal {
		if e.eviction == nil {
			continue
		}
		at, victim := e.at.Format(time.TimeOnly), e.eviction.Pod
		switch {
		case isCritical(victim):
			return fmt.Errorf("%s: critical pod %s is evicted", at, victim.Name)
		case e.waiting > 0 && !ended[victim.Name]:
			return fmt.Errorf("%s: %s is evicted while another pod ends", at, victim.Name)
		}
		if ended[victim.Name] { // a shorter grace period
			continue
		}
		ended[victim.Name] = true
		signal := pressure.Signal(e.eviction.Cause)
		if len(w.layout.Reclaims(signal)) > 0 && !w.judged[e.sample-1].again {
			return fmt.Errorf("%s: %s is evicted for %s before disk space is freed", at, victim.Name, signal)
		}
		if !w.isLow(p, signal, w.judged[e.sample-1]) {
			return fmt.Errorf("%s: %s is evicted without need", at, victim.Name)
		}
	}
	return w.judgeConditions(p, changes)
}

// isLow reports whether a sample is below a threshold of the signal with its minimum reclaim.
func (w *world) isLow(p pressure.Policy, signal pressure.Signal, s sample) bool {
	r, known := s.readings[signal]
	return known && slices.ContainsFunc(p.Thresholds, func(t pressure.Threshold) bool {
		return t.Signal == signal && r.Available < t.Below.Of(capacity)+t.Reclaim.Of(capacity)
	})
}

// judgeConditions checks each condition against the samples: it is true from a sample below a threshold on, and
// becomes false five minutes after the last.
func (w *world) judgeConditions(p pressure.Policy, changes []change) error {
	for _, c := range pressure.Conditions() {
		isTrue, next := false, 0
		var low, lately time.Time // the last samples below a threshold, and below it with its minimum reclaim
		for _, s := range w.judged {
			if s.again || s.failed {
				continue
			}
			for ; next < len(changes) && !changes[next].at.After(s.at); next++ {
				isTrue = slices.Contains(changes[next].conditions, c)
			}
			below, near := false, false
			for _, t := range p.Thresholds {
				r, known := s.readings[t.Signal]
				below = below || known && t.Signal.Condition() == c && r.Available < t.Below.Of(capacity)
				near = near || known && t.Signal.Condition() == c && w.isLow(p, t.Signal, s)
			}
			held := !low.IsZero() && s.at.Sub(low) < p.Hold
			switch {
			case below && !isTrue:
				return fmt.Errorf("%s: %s is false below a threshold", s.at.Format(time.TimeOnly), c)
			case isTrue && !below && !near && (lately.IsZero() || s.at.Sub(lately) >= p.Hold):
				return fmt.Errorf("%s: %s is true for no reason", s.at.Format(time.TimeOnly), c)
			case !isTrue && held:
				return fmt.Errorf("%s: %s flaps", s.at.Format(time.TimeOnly), c)
			}
			if below {
				low = s.at
			}
			if below || near {
				lately = s.at
			}
		}
	}
	return nil
}
