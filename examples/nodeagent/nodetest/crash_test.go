// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// An agent that has died at a call is stopped as if it had been found dead: what else it
// had under way, which hangs, is given up.
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
