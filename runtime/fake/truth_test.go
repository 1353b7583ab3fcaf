// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

func TestTruthMeetsNoFaultAndLeavesNoTrace(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		n.run(n.sandbox("u", 0), "web", 0)
		n.inject(fake.Fault{Lie: fake.Omit})
		n.inject(fake.Fault{Err: errors.New("down")})
		before := len(n.Journal())
		after(time.Minute)
		truth := n.Truth()
		require.Len(t, truth, 1)
		assert.Equal(t, runtime.StateRunning, truth[0].Latest("web").State)
		assert.Len(t, n.Journal(), before)
		assert.Equal(t, time.Minute, n.Now())
	})
}

func TestTheJournalTellsWhatTookEffectAndWhen(t *testing.T) {
	slow := func(fake.Call) time.Duration { return time.Second }
	inBubble(t, fake.WorldOptions{Latency: slow}, func(t *testing.T, n *node) {
		sb := n.sandbox("u", 0)
		id := n.create(sb, "web", 0)
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer}, DoneButReplyLost: true})
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStopContainer}, Err: errors.New("no")})
		require.ErrorIs(t, n.StartContainer(t.Context(), id), fake.ErrReplyLost)
		require.Error(t, n.StopContainer(t.Context(), id, time.Second))
		started := n.Journal().Of(fake.Target{Op: fake.OpStartContainer})[0]
		assert.True(t, started.Done)
		assert.Equal(t, started.At+time.Second, started.DoneAt)
		assert.False(t, n.Journal().Of(fake.Target{Op: fake.OpStopContainer})[0].Done)
	})
}
