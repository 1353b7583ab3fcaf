// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/casetest"
)

const (
	second = time.Second
	milli  = time.Millisecond
)

func TestFirstDue(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct {
		name       string
		ago, delay time.Duration
		want       time.Duration
	}{
		{"just started", 0, 3 * second, 3 * second},
		{"on the way", 1300 * milli, 3 * second, 1700 * milli},
		{"no delay", 0, 0, 0},
		{"past", time.Hour, 3 * second, 0},
		{"started in the future", -time.Hour, 3 * second, 3 * second},
	} {
		assert.Equal(t, tc.want, firstDue(now, now.Add(-tc.ago), tc.delay).Sub(now), tc.name)
	}
	assert.Equal(t, now, firstDue(now, time.Time{}, 3*second), "it is not known when it started")
	assert.Equal(t, second, adoptedDue(now, now.Add(-2*second), 3*second, 7*second).Sub(now), "its delay is not over")
	assert.Equal(t, 7*second, adoptedDue(now, now.Add(-time.Hour), 3*second, 7*second).Sub(now))
}

func TestNextDue(t *testing.T) {
	due := time.Now()
	for _, tc := range []struct {
		name           string
		late, spent    time.Duration
		want, lateness time.Duration
	}{
		{"at once", 0, 0, second, 0},
		{"in time", 0, 900 * milli, second, 0},
		{"just in time", 0, second, second, 0},
		{"one is remembered", 0, 1100 * milli, second, 100 * milli},
		{"only the last of two", 0, 2100 * milli, 2 * second, 100 * milli},
		{"only the last of many", 0, 4700 * milli, 4 * second, 700 * milli},
		{"late", 300 * milli, 100 * milli, second, 0},
		{"late and slow", 300 * milli, second, second, 300 * milli},
		{"late by more than a period", 1200 * milli, 0, 2 * second, 0},
		{"late by a period", second, 0, 2 * second, 0},
		{"very late", 60 * second, 0, 61 * second, 0},
		{"very late and slow", 60300 * milli, 800 * milli, 61 * second, 100 * milli},
	} {
		began := due.Add(tc.late)
		now := began.Add(tc.spent)
		next := nextDue(due, began, now, second)
		assert.Equal(t, tc.want, next.Sub(due), tc.name)
		assert.Equal(t, tc.lateness, max(0, now.Sub(next)), tc.name)
	}
}

func TestChangedDue(t *testing.T) {
	now := time.Now()
	began := now.Add(-10 * second)
	for _, tc := range []struct {
		name string
		was  time.Duration
		t    Timing
		want time.Duration
	}{
		{"as it was", 2 * second, Timing{Period: 5 * second}, 2 * second},
		{"sooner", 50 * second, Timing{Period: 5 * second}, 5 * second},
		{"not before the delay", 2 * second, Timing{Period: 5 * second, InitialDelay: 30 * second}, 20 * second},
		{"under way", 0, Timing{Period: 5 * second}, 0},
	} {
		assert.Equal(t, tc.want, changedDue(now, now.Add(tc.was), began, tc.t).Sub(now), tc.name)
	}
}

// TestAgendaAgainstSorting plays random pushes, removals and changes on a heap and on a plain slice.
func TestAgendaAgainstSorting(t *testing.T) {
	base := time.Now()
	sooner := func(a, b *probe) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.rank, b.rank)) }
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var heap agenda
		var plain []*probe
		for step := range 200 {
			switch {
			case len(plain) == 0 || rnd.IntN(3) > 0:
				p := &probe{rank: uint32(step), index: notListed, due: base.Add(time.Duration(rnd.IntN(50)))}
				heap.push(p)
				plain = append(plain, p)
			case rnd.IntN(2) == 0:
				i := rnd.IntN(len(plain))
				heap.remove(plain[i])
				require.EqualValues(t, notListed, plain[i].index)
				plain = slices.Delete(plain, i, i+1)
			default:
				p := plain[rnd.IntN(len(plain))]
				p.due = base.Add(time.Duration(rnd.IntN(50)))
				heap.fix(p)
			}
			if len(plain) > 0 && slices.MinFunc(plain, sooner) != heap.first() || len(heap) != len(plain) {
				t.Fatalf("seed %d step %d: another one is first", seed, step)
			}
			for i, p := range heap {
				if int(p.index) != i {
					t.Fatalf("seed %d step %d: at %d is one that thinks it is at %d", seed, step, i, p.index)
				}
			}
		}
	}
}

// TestLine compares the lines with slices. Probes stand in several, and come again.
func TestLine(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	some := make([]*probe, 20)
	for i := range some {
		some[i] = &probe{}
	}
	var all [lines]line
	var plain [lines][]*probe
	for range casetest.Rounds(20_000) {
		kind := rnd.IntN(lines)
		l, want := &all[kind], &plain[kind]
		l.kind = uint8(kind)
		if rnd.IntN(2) == 0 {
			p := some[rnd.IntN(len(some))]
			require.Equal(t, slices.Contains(*want, p), l.has(p))
			l.push(p)
			if !slices.Contains(*want, p) {
				*want = append(*want, p)
			}
		} else if p := l.pop(); len(*want) == 0 {
			require.Nil(t, p)
		} else {
			require.Same(t, (*want)[0], p)
			require.Nil(t, p.next[kind], "what has left keeps no other")
			*want = (*want)[1:]
		}
		require.Equal(t, len(*want) == 0, l.empty())
	}
}

// The handler's answer counts before the deadline only, but for the output of a failure.
func TestJudged(t *testing.T) {
	const timeout = time.Second
	late := Outcome{Verdict: VerdictFailure, Output: "timed out after 1s"}
	broken := errors.New("broken")
	for _, tc := range []struct {
		name string
		out  Outcome
		err  error
		took time.Duration
		want Outcome
		fail bool
	}{
		{"success", Outcome{VerdictSuccess, "ok"}, nil, timeout - 1, Outcome{VerdictSuccess, "ok"}, false},
		{"late success", Outcome{VerdictSuccess, "ok"}, nil, timeout, late, false},
		{"failure", Outcome{VerdictFailure, "no"}, nil, timeout - 1, Outcome{VerdictFailure, "no"}, false},
		{"late failure", Outcome{VerdictFailure, "no"}, nil, timeout, Outcome{VerdictFailure, "no"}, false},
		{"error", Outcome{}, broken, timeout - 1, Outcome{}, true},
		{"late error", Outcome{}, broken, timeout, late, false},
		{"late error beside a failure", Outcome{VerdictFailure, "no"}, broken, timeout, late, false},
		{"no verdict", Outcome{}, nil, 0, Outcome{Verdict: VerdictFailure}, false},
		{"a verdict that does not exist", Outcome{Verdict: VerdictFailure + 1}, nil, 0, Outcome{}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := judged(tc.out, tc.err, tc.took, timeout)
			assert.Equal(t, tc.want, out)
			assert.Equal(t, tc.fail, err != nil)
		})
	}
}
