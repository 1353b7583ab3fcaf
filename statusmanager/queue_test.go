// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var dawn = time.Unix(1_700_000_000, 0)

func TestQueueOrder(t *testing.T) {
	q := queue{ageing: 10 * time.Second}
	tickets := map[string]*ticket{}
	push := func(name string, c Class, at time.Duration) {
		if tickets[name] == nil {
			tickets[name] = &ticket{}
		}
		q.push(tickets[name], c, dawn.Add(at))
	}
	pop := func(at time.Duration) string {
		got := q.pop(dawn.Add(at))
		for name, t := range tickets {
			if t == got {
				return name
			}
		}
		return ""
	}
	push("other 1", ClassOther, 0)
	push("ready 1", ClassReady, 1)
	push("other 2", ClassOther, 2)
	push("terminal 1", ClassTerminal, 3)
	push("ready 2", ClassReady, 4)
	push("other 2", ClassTerminal, 5) // moves up
	push("terminal 1", ClassOther, 6) // does not move down
	assert.Equal(t, 5, q.len())
	var got []string
	for range 6 {
		got = append(got, pop(7))
	}
	assert.Equal(t, []string{"terminal 1", "other 2", "ready 1", "ready 2", "other 1", ""}, got)
}

// TestQueueAgeing: long-waiting pods get a share of the turns, but not before the terminal class.
func TestQueueAgeing(t *testing.T) {
	q := queue{ageing: time.Second}
	for range 10 {
		q.push(&ticket{}, ClassOther, dawn)
		q.push(&ticket{}, ClassReady, dawn)
	}
	order := func(n int, at time.Duration) (out string) {
		for range n {
			out += q.pop(dawn.Add(at)).class.String()[:1]
		}
		return out
	}
	assert.Equal(t, "rrrr", order(4, 0), "nobody has waited long")
	assert.Equal(t, "rrro", order(4, time.Second))
	q.push(&ticket{}, ClassTerminal, dawn.Add(time.Second))
	assert.Equal(t, "trrro", order(5, time.Second))
	assert.Equal(t, "oooooooo", order(8, time.Second))
}

// TestQueueAsAList compares with a plain slice.
func TestQueueAsAList(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		q := queue{ageing: time.Hour}
		var model []*ticket
		tickets := make([]ticket, 8)
		for range 60 {
			tk := &tickets[rng.IntN(len(tickets))]
			switch rng.IntN(4) {
			case 0, 1:
				c := Class(rng.IntN(classes))
				if i := slices.Index(model, tk); i < 0 || c < tk.class {
					model = append(slices.DeleteFunc(model, func(o *ticket) bool { return o == tk }), tk)
				}
				q.push(tk, c, dawn)
			case 2:
				model = slices.DeleteFunc(model, func(o *ticket) bool { return o == tk })
				q.remove(tk)
			case 3:
				var want *ticket
				for _, o := range model {
					if want == nil || o.class < want.class {
						want = o
					}
				}
				model = slices.DeleteFunc(model, func(o *ticket) bool { return o == want })
				require.True(t, want == q.pop(dawn))
			}
			require.Equal(t, len(model), q.len())
		}
	}
}

func TestDelaysAsAList(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 300 {
		d := delays{}
		model := map[*wait]time.Time{}
		waits := make([]wait, 8)
		for range 60 {
			w := &waits[rng.IntN(len(waits))]
			now := dawn.Add(time.Duration(rng.IntN(100)))
			switch rng.IntN(3) {
			case 0:
				model[w] = now
				d.set(w, now)
			case 1:
				delete(model, w)
				d.remove(w)
			case 2:
				got := d.pop(now)
				for _, until := range model {
					require.True(t, got != nil && !model[got].After(until) || until.After(now))
				}
				if got != nil {
					require.False(t, model[got].After(now))
					delete(model, got)
				}
			}
			_, ok := d.next()
			require.Equal(t, len(model) > 0, ok)
		}
	}
}

// len is how many pods wait.
func (l *lanes) len() (n int) {
	for i := range l.queues {
		n += l.queues[i].len()
	}
	return n
}
