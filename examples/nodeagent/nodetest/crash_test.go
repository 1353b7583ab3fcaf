// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// An agent that died at a call is stopped like an agent that was found dead: its other hanging
// calls are given up.
func TestStopOfAnAgentThatIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{})
		_, err := node.World.Inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer, Pod: "a"}, HangUntilCtx: true})
		require.NoError(t, err)
		a, b := nodetest.Pod("a", nodetest.Container("c")), nodetest.Pod("b", nodetest.Container("c"))
		node.Apply(a)
		sprung := node.CrashAgentOn(fake.Target{Op: fake.OpRunSandbox, Pod: "b"}, 1, nodetest.Undone)
		node.Apply(a, b)
		<-sprung
		node.StopAgent()
		node.StartAgent()
		time.Sleep(time.Minute)
		node.Settle()
		marks := node.History().Marks
		require.Equal(t, nodetest.MarkAgentCrashed, marks[1].Kind)
		require.Equal(t, "Running", string(node.Status("b").Phase))
	})
}

// A seed determines a history, apart from the order of goroutines: retries occur at the same times
// in each run.
func TestSeedChoosesTheTimesOfRetries(t *testing.T) {
	starts := func(seed uint64) (at []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			node := nodetest.New(t, nodetest.Options{Seed: seed})
			node.FailVolumes(errors.New("no disk"))
			node.Apply(nodetest.Pod("a", nodetest.Container("c"), nodetest.Volume("v")))
			time.Sleep(time.Hour)
			for _, v := range node.History().Volumes {
				at = append(at, v.At)
			}
		})
		return at
	}
	require.Equal(t, starts(1), starts(1))
	require.NotEqual(t, starts(1), starts(2))
}
