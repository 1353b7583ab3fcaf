// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/podconfig"
)

// TestPropertyQueueTellsTheSameStory has a consumer that applies every update at once, and a second
// consumer that reads the queue at its own pace. In the end both have the same pods.
func TestPropertyQueueTellsTheSameStory(t *testing.T) {
	const shards = 2
	changes := casetest.Rounds(100_000)
	seed := newSeed(t)
	for shard := range uint64(shards) {
		t.Run(fmt.Sprint("shard=", shard), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, shard))
			for done := 0; done < changes/shards; {
				steps := readScript(randomScript(r, 1_000))
				done += len(steps)
				followThroughQueue(t, r, steps)
			}
		})
	}
}

// race is a prompt consumer and a late consumer.
type race struct {
	queue        *podconfig.Queue
	prompt, late follower
	// first are, by source, the pods of its first snapshot that were not removed since.
	first  map[string]map[key]bool
	synced map[string]int
}

func followThroughQueue(t *testing.T, r *rand.Rand, steps []step) {
	c := &race{
		queue: podconfig.NewQueue(), prompt: follower{}, late: follower{},
		first: map[string]map[key]bool{}, synced: map[string]int{},
	}
	store := newStore(t, podconfig.Shared(podconfig.StoreOptions{Rejected: func(podconfig.Rejection) {}}))
	// The larger the pace, the more often the queue is emptied.
	pace := r.IntN(5)
	for i, s := range steps {
		for _, u := range merge(t, store, s.source, s.change()) {
			c.push(t, u)
		}
		if n := c.queue.Len(); n > (2*6+1)*len(scriptSources) {
			require.FailNow(t, "the queue grows", "step %d: %d", i, n)
		}
		for r.IntN(8) < pace && c.pop(t) {
			continue
		}
	}
	for c.pop(t) {
		continue
	}
	require.Zero(t, c.queue.Len())
	require.True(t, maps.Equal(c.prompt, c.late), "prompt %v, late %v", c.prompt, c.late)
	for source := range c.first {
		require.Equal(t, 1, c.synced[source], "source %s", source)
	}
	require.Len(t, c.synced, len(c.first))
}

func (c *race) push(t *testing.T, u podconfig.Update) {
	if err := c.prompt.follow(u); err != nil {
		require.NoError(t, err)
	}
	if u.Op == podconfig.OpRemove {
		for _, p := range u.Pods {
			delete(c.first[u.Source], key{u.Source, string(p.UID)})
		}
	}
	if u.Synced {
		c.first[u.Source] = map[key]bool{}
		for k := range c.prompt {
			if k.source == u.Source {
				c.first[u.Source][k] = true
			}
		}
	}
	require.NoError(t, c.queue.Push(t.Context(), u))
}

// pop lets the late consumer handle an update. The Synced mark of a source must follow all pods of
// its snapshot.
func (c *race) pop(t *testing.T) bool {
	u, ok := c.queue.Pop()
	if !ok {
		return false
	}
	if err := c.late.follow(u); err != nil {
		require.NoError(t, err)
	}
	if u.Synced {
		c.synced[u.Source]++
		for k := range c.first[u.Source] {
			require.Contains(t, c.late, k, "synced before it arrived")
		}
	}
	return true
}
