// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestUsual: usual follows the 40th percentile within its bounds, whatever the duration of slower
// attempts.
func TestUsual(t *testing.T) {
	for _, tc := range []struct {
		name string
		take func(*rand.Rand) time.Duration
		from time.Duration
		to   time.Duration
	}{
		{"fast", func(*rand.Rand) time.Duration { return 0 }, leastUsual, leastUsual},
		{"slow", func(*rand.Rand) time.Duration { return time.Minute }, mostUsual, mostUsual},
		{"all alike", func(*rand.Rand) time.Duration { return 20 * milli }, 18 * milli, 22 * milli},
		{"half of them slow", func(r *rand.Rand) time.Duration { return time.Duration(1+r.IntN(2)*1000) * milli }, milli / 2, 2 * milli},
		{"evenly spread", func(r *rand.Rand) time.Duration { return time.Duration(r.IntN(100)) * milli }, 30 * milli, 50 * milli},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, 1))
			var u usual
			assert.Equal(t, milli, u.patience(), "at first")
			var sum time.Duration
			const rounds = 20_000
			for i := range 2 * rounds {
				u.add(tc.take(rnd))
				if i >= rounds {
					sum += time.Duration(u)
				}
			}
			assert.GreaterOrEqual(t, sum/rounds, tc.from)
			assert.LessOrEqual(t, sum/rounds, tc.to)
			assert.Equal(t, 4*time.Duration(u), u.patience())
		})
	}
	var u usual
	u.add(leastUsual + 1)
	assert.Equal(t, usual(leastUsual+leastUsual/20), u, "one step up")
	u = usual(100 * milli)
	u.add(100 * milli)
	assert.Equal(t, usual(92500*time.Microsecond), u, "one step down")
}

// hotel is a pool with waiting probes and attempts with places.
type hotel struct {
	pool
	now time.Time
}

func newHotel(limit int) *hotel { return &hotel{pool: newPool(limit), now: time.Now()} }

func (h *hotel) guest(ago time.Duration) *attempt {
	a := &attempt{probe: &probe{stage: StageRunning}, place: noPlace, started: h.now.Add(-ago), timeout: time.Second}
	h.occupy(a)
	return a
}

func TestPoolEvictsWhileOthersWait(t *testing.T) {
	h := newHotel(3)
	old, middle, young := h.guest(5*milli), h.guest(milli), h.guest(milli/4)
	_, waiting := h.evict(h.now)
	assert.False(t, waiting)
	assert.Len(t, h.places, 3, "nobody waits")
	h.queue.push(&probe{stage: StageQueued})
	again, waiting := h.evict(h.now)
	assert.True(t, waiting)
	assert.Equal(t, []int{noPlace, noPlace, 0}, []int{old.place, middle.place, young.place})
	assert.Equal(t, h.now.Add(milli-milli/4), again)
	h.guest(milli / 2)
	again, _ = h.evict(h.now)
	assert.Equal(t, h.now.Add(milli/2), again, "the first to lose its place")
	h.guest(milli / 8)
	again, _ = h.evict(h.now)
	assert.Equal(t, h.now.Add(milli/2), again)
	assert.Nil(t, h.next(), "there is no place")
}

func TestPoolNext(t *testing.T) {
	h := newHotel(1)
	stopped, waits, last := &probe{stage: StageStopped}, &probe{stage: StageQueued}, &probe{stage: StageQueued}
	h.queue.push(stopped)
	h.queue.push(waits)
	h.queue.push(last)
	assert.Same(t, waits, h.next(), "what was stopped is left out")
	h.guest(0)
	assert.Nil(t, h.next(), "no place is free")
	assert.True(t, h.queue.has(last), "and nothing is lost")
	h.vacate(h.places[0])
	assert.Same(t, last, h.next())
	assert.Nil(t, h.next())
}

// TestPoolPlaces: each attempt knows its place, in any order of arrivals and departures.
func TestPoolPlaces(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	h := newHotel(20)
	var in []*attempt
	for range 2_000 {
		if len(in) == 0 || len(in) < 20 && rnd.IntN(2) == 0 {
			in = append(in, h.guest(0))
		} else {
			i := rnd.IntN(len(in))
			gone := in[i]
			h.vacate(gone)
			h.vacate(gone) // twice is once
			require.Equal(t, noPlace, gone.place)
			in = slices.Delete(in, i, i+1)
		}
		require.Len(t, h.places, len(in))
		for _, a := range in {
			require.Same(t, a, h.places[a.place])
		}
		for _, kept := range h.places[len(h.places):cap(h.places)] {
			require.Nil(t, kept, "an attempt that has left is not kept")
		}
	}
}

func TestPoolLearns(t *testing.T) {
	h := newHotel(1)
	ended := func(took time.Duration) *attempt {
		a := h.guest(0)
		h.vacate(a)
		a.ended = a.started.Add(took)
		h.learn(a)
		return a
	}
	assert.False(t, ended(milli-1).probe.slow)
	assert.NotZero(t, h.usual, "it took longer than the usual")
	h.usual = 0
	assert.True(t, ended(milli).probe.slow, "it would have lost its place")
	h.usual = 0
	assert.True(t, ended(time.Second).probe.slow)
	assert.Zero(t, h.usual, "what times out is no measure")
	a := ended(0)
	a.probe.slow = true
	h.learn(a)
	assert.False(t, a.probe.slow, "it is well again")
}
