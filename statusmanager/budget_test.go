// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBudgetWithoutNews(t *testing.T) {
	b := budget{}
	assert.False(t, b.due().After(dawn), "the first request does not wait")
	b.began(dawn)
	assert.Equal(t, dawn.Add(10*time.Second), b.due(), "even if it was not charged")
	b.news()
	assert.False(t, b.due().After(dawn), "news do not wait")
	b.told()
	assert.Equal(t, dawn.Add(10*time.Second), b.due())
}

func TestBudgetOfAnEnd(t *testing.T) {
	b := budget{}
	for range 2 * budgetBurst {
		b.began(dawn)
		b.charge(dawn)
	}
	assert.Equal(t, budgetBurst, b.tries())
	assert.Equal(t, dawn.Add(60*time.Second), b.due(), "the bucket, not the interval")
	b.ends()
	assert.False(t, b.due().After(dawn), "what was charged before does not count")
	for tries := range 2 * budgetBurst {
		assert.Equal(t, min(tries, budgetBurst), b.tries())
		b.began(dawn)
	}
}

func TestBudgetOfNews(t *testing.T) {
	b, now := budget{}, dawn
	var at []time.Duration
	for range 8 { // news all the time, and every request is charged
		b.news()
		if due := b.due(); due.After(now) {
			now = due
		}
		b.began(now)
		b.charge(now)
		at = append(at, now.Sub(dawn)/time.Second)
	}
	assert.Equal(t, []time.Duration{0, 0, 0, 0, 0, 10, 20, 30}, at)
	now = now.Add(15 * time.Second)
	assert.False(t, b.due().After(now))
	b.charge(now)
	assert.Equal(t, now.Add(5*time.Second), b.due())
}

// TestBudgetBounds: in any time T there are at most budgetBurst + T/interval charged requests, whatever the news.
func TestBudgetBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 14))
	for range 200 {
		const interval = MaxBackoff
		b, now := budget{}, dawn
		var charged []time.Time
		for range 100 {
			now = now.Add(time.Duration(rng.Int64N(int64(4 * time.Second))))
			switch rng.IntN(3) {
			case 0:
				b.news()
			case 1:
				b.told()
			}
			if b.due().After(now) {
				continue
			}
			b.began(now)
			if rng.IntN(4) > 0 {
				b.charge(now)
				charged = append(charged, now)
			}
		}
		for i := range charged {
			for j := i; j < len(charged); j++ {
				require.LessOrEqual(t, j-i+1, budgetBurst+int(charged[j].Sub(charged[i])/interval))
			}
		}
	}
}

func TestLanes(t *testing.T) {
	l := newLanes(4)
	tickets := map[string]*ticket{}
	push := func(name string, in lane, c Class, at time.Duration) {
		if tickets[name] == nil {
			tickets[name] = &ticket{}
		}
		l.push(tickets[name], in, c, dawn.Add(at))
	}
	pop := func(at time.Duration) string {
		got := l.pop(dawn.Add(at))
		for name, t := range tickets {
			if t == got {
				return name
			}
		}
		return ""
	}
	push("failing 1", laneTroubled, ClassTerminal, 0)
	push("failing 2", laneTroubled, ClassOther, 0)
	push("failing 3", laneTroubled, ClassOther, 0)
	push("good", laneGood, ClassOther, 0)
	assert.Equal(t, []string{"good", "failing 1", "failing 2", ""}, []string{pop(0), pop(0), pop(0), pop(0)}, "half of the workers at most")
	assert.Equal(t, 1, l.len())
	l.landed(laneTroubled)
	assert.Equal(t, "failing 3", pop(0))
	push("late", laneGood, ClassOther, 0)
	assert.Equal(t, "late", pop(0))
	push("later", laneGood, ClassTerminal, 0)
	assert.Empty(t, pop(0), "four workers")
	assert.Equal(t, 4, l.busy())
	assert.Equal(t, 1, l.queued(ClassTerminal))
	push("later", laneTroubled, ClassOther, time.Second)
	assert.Equal(t, 1, l.queued(ClassOther), "it is in one lane only")
	assert.Equal(t, dawn, tickets["later"].since, "and keeps its time")
	l.remove(tickets["later"])
	assert.Zero(t, l.len())
}

// TestLanesShare: if good pods keep all workers busy, long-waiting troubled pods get one turn in four.
func TestLanesShare(t *testing.T) {
	for _, workers := range []int{1, 2, 10} {
		l := newLanes(workers)
		for range 20 {
			l.push(&ticket{}, laneGood, ClassOther, dawn)
			l.push(&ticket{}, laneTroubled, ClassOther, dawn)
		}
		order := func(at time.Duration) (out []lane) {
			for range 8 {
				tk := l.pop(dawn.Add(at))
				out = append(out, tk.lane)
				l.landed(tk.lane)
			}
			return out
		}
		assert.NotContains(t, order(0), laneTroubled)
		assert.Equal(t, []lane{
			laneGood, laneGood, laneGood, laneTroubled, laneGood, laneGood, laneGood, laneTroubled,
		}, order(ageing), workers)
	}
}

// lanesOf returns lanes with so many pods waiting in each.
func lanesOf(workers, good, unknown, troubled int) *lanes {
	l := newLanes(workers)
	for in, n := range []int{good, unknown, troubled} {
		for range n {
			l.push(&ticket{}, lane(in), ClassOther, dawn)
		}
	}
	return &l
}

// takeAll takes all tickets that may be in flight together.
func takeAll(l *lanes) (out []*ticket) {
	for t := l.pop(dawn); t != nil; t = l.pop(dawn) {
		out = append(out, t)
	}
	return out
}

func TestLanesInFlight(t *testing.T) {
	for _, c := range []struct {
		name                             string
		workers, good, unknown, troubled int
		want                             [laneCount]int
	}{
		{"good pods use all workers", 10, 20, 0, 0, [laneCount]int{10, 0, 0}},
		{"so do new ones", 10, 0, 20, 0, [laneCount]int{0, 10, 0}},
		{"and good and new ones half each", 10, 20, 20, 20, [laneCount]int{5, 5, 0}},
		{"troubled ones use half of them", 10, 0, 0, 20, [laneCount]int{0, 0, 5}},
		{"at least one", 1, 0, 0, 20, [laneCount]int{0, 0, 1}},
		{"one of two", 2, 0, 0, 20, [laneCount]int{0, 0, 1}},
		{"new and troubled ones leave a fifth", 10, 0, 8, 20, [laneCount]int{0, 8, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := lanesOf(c.workers, c.good, c.unknown, c.troubled)
			takeAll(l)
			assert.Equal(t, c.want, l.inFlight)
			assert.Equal(t, c.good+c.unknown+c.troubled-l.busy(), l.len())
		})
	}
}

// TestLanesTakeTurns: good and new pods take turns, also while a troubled one waits.
func TestLanesTakeTurns(t *testing.T) {
	l := lanesOf(8, 2, 2, 0)
	var turns []lane
	for _, tk := range takeAll(l) {
		turns = append(turns, tk.lane)
	}
	assert.Equal(t, []lane{laneGood, laneNew, laneGood, laneNew}, turns)

	l = lanesOf(8, 0, 1, 1)
	assert.Equal(t, laneNew, l.pop(dawn.Add(time.Hour)).lane)
}

// TestLanesKeepThePlace: a pod that is pushed again in its lane keeps its place and its more urgent class.
func TestLanesKeepThePlace(t *testing.T) {
	l := newLanes(4)
	first, second := &ticket{}, &ticket{}
	l.push(first, laneGood, ClassReady, dawn)
	l.push(second, laneGood, ClassReady, dawn)
	l.push(first, laneGood, ClassOther, dawn.Add(time.Minute))
	l.push(first, laneGood, ClassReady, dawn.Add(time.Minute))
	assert.Equal(t, ClassReady, first.class)
	assert.Same(t, first, l.pop(dawn))
	assert.Same(t, second, l.pop(dawn))
}

func TestLanesRoomForTrouble(t *testing.T) {
	for _, c := range []struct {
		good, unknown, inFlight int
		want                    bool
	}{
		{0, 0, 3, true}, {0, 0, 4, false}, {1, 0, 1, true}, {1, 0, 2, false}, {0, 1, 1, true}, {0, 1, 2, false}, {9, 9, 2, false},
	} {
		l := lanesOf(8, c.good, c.unknown, 9)
		l.inFlight[laneTroubled] = c.inFlight
		assert.Equal(t, c.want, l.roomForTrouble(), "%+v", c)
	}
}

// TestLanesOverdue: overdue requests of new pods count as troubled, up to a quarter of the workers while other pods
// wait, and otherwise up to half. From the first overdue request on, the last two workers are for good pods.
func TestLanesOverdue(t *testing.T) {
	l := lanesOf(10, 0, 20, 0)
	flying := takeAll(l)
	goOn := func() (n int) {
		for _, tk := range flying {
			if l.overdue(tk) {
				n++
			}
		}
		return n
	}
	assert.Equal(t, 2, goOn())
	assert.Equal(t, [laneCount]int{0, 8, 2}, l.inFlight)
	for _, tk := range flying[2:] {
		l.landed(tk.lane)
	}
	assert.Len(t, takeAll(l), 6)
	assert.Equal(t, [laneCount]int{0, 6, 2}, l.inFlight, "two workers are left")
	l.push(&ticket{}, laneGood, ClassOther, dawn)
	l.push(&ticket{}, laneTroubled, ClassOther, dawn)
	assert.Equal(t, laneGood, l.pop(dawn).lane)
	assert.Nil(t, l.pop(dawn))

	l = lanesOf(10, 0, 10, 0)
	flying = takeAll(l)
	assert.Equal(t, 5, goOn(), "nothing waits")
	assert.Equal(t, 5, goOn(), "a troubled request is not overdue again")
	assert.Equal(t, [laneCount]int{0, 5, 5}, l.inFlight)
}

func TestPace(t *testing.T) {
	assert.Equal(t, paceQuick, paceOf(499*time.Millisecond, 500*time.Millisecond))
	assert.Equal(t, paceSlow, paceOf(500*time.Millisecond, 500*time.Millisecond))
}
