// SPDX-License-Identifier: Apache-2.0

package hotplug_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/hotplug"
	"github.com/keelson-dev/keelson/internal/casetest"
)

var (
	none  = hotplug.Facts{Missing: "/dev/serial/by-id/x"}
	first = hotplug.Facts{Nodes: "1", Numbers: "c 188:0"}
	again = hotplug.Facts{Nodes: "2", Numbers: "c 188:0"}
	other = hotplug.Facts{Nodes: "3", Numbers: "c 188:1"}
	start = time.Unix(1_000_000, 0)
)

func TestDecide(t *testing.T) {
	runs := hotplug.Record{Has: first, Seen: first, Changed: start.Add(-time.Hour)}
	for _, tt := range []struct {
		name   string
		policy hotplug.Policy
		record hotplug.Record
		facts  hotplug.Facts
		after  time.Duration // between the change and the decision
		want   hotplug.Action
	}{
		{"missing at the start", hotplug.Keep, hotplug.Record{}, none, 0, hotplug.Action{}},
		{"there at the start", hotplug.Stop, hotplug.Record{}, first, 0, hotplug.Action{Start: true}},
		{"no change", hotplug.Restart, runs, first, 0, hotplug.Action{Start: true}},
		{"unplugged: keep", hotplug.Keep, runs, none, 0, hotplug.Action{Start: true}},
		{"unplugged: restart", hotplug.Restart, runs, none, 0, hotplug.Action{Start: true}},
		{"unplugged: stop", hotplug.Stop, runs, none, 0, hotplug.Action{Stop: true}},
		{"same number: keep", hotplug.Keep, runs, again, time.Second, hotplug.Action{Start: true}},
		{"same number: restart", hotplug.Restart, runs, again, time.Second, hotplug.Action{Stop: true}},
		{"same number: stop", hotplug.Stop, runs, again, time.Second, hotplug.Action{Stop: true}},
		{"other number: keep", hotplug.Keep, runs, other, time.Second, hotplug.Action{Stop: true}},
		{"other number, not settled", hotplug.Keep, runs, other, 0, hotplug.Action{Start: true, After: 100 * time.Millisecond}},
		{"stopped, not settled", hotplug.Stop, runs.Stopped(start), other, 0, hotplug.Action{After: 100 * time.Millisecond}},
		{"stopped, settled", hotplug.Stop, runs.Stopped(start), other, time.Second, hotplug.Action{Start: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, got := hotplug.Decide(tt.policy, tt.record, tt.facts, start)
			if tt.after > 0 {
				_, got = hotplug.Decide(tt.policy, r, tt.facts, start.Add(tt.after))
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

// A device that was missing is another device, also if its node has the same inode number.
func TestReusedInode(t *testing.T) {
	r := hotplug.Record{Has: first, Seen: first}
	r, _ = hotplug.Decide(hotplug.Restart, r, none, start)
	r, _ = hotplug.Decide(hotplug.Restart, r, first, start)
	_, a := hotplug.Decide(hotplug.Restart, r, first, start.Add(time.Second))
	assert.True(t, a.Stop)
}

// A link that changes 100 times a second causes few stops, and the containers get the last device
// within the longest settle time.
func TestFlappingLink(t *testing.T) {
	for seed := range casetest.Rounds[uint64](300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		policy := []hotplug.Policy{hotplug.Keep, hotplug.Stop, hotplug.Restart}[seed%3]
		var r hotplug.Record
		now, stops, facts := start, 0, first
		step := func() {
			var a hotplug.Action
			r, a = hotplug.Decide(policy, r, facts, now)
			require.False(t, a.Stop && a.Start)
			if a.Start && facts.Missing == "" && a.After == 0 {
				require.Equal(t, facts, r.Has)
			}
			if a.Stop {
				require.NotEqual(t, hotplug.Facts{}, r.Has, "nothing runs")
				r, stops = r.Stopped(now), stops+1
			}
		}
		step()
		for i := range 100 {
			if facts = none; i%2 == 1 {
				facts = hotplug.Facts{Nodes: strconv.Itoa(i), Numbers: strconv.Itoa(rng.IntN(3))}
			}
			step()
			now = now.Add(10 * time.Millisecond)
		}
		require.LessOrEqual(t, stops, 2, "seed %d, %s", seed, policy)
		facts = other
		for range 400 {
			step()
			now = now.Add(100 * time.Millisecond)
		}
		require.Equal(t, other, r.Has, "seed %d, %s", seed, policy)
	}
}
