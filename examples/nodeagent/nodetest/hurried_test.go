// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
)

// hasty is an agent that asks the runtime for a pod again and again.
type hasty struct {
	nodetest.Assembly
	opts node.Options
}

func (h hasty) Run(ctx context.Context) error {
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for ctx.Err() == nil {
			_, _ = h.opts.Runtime.PodStatus(ctx, "p-1")
		}
	}()
	err := h.Assembly.Run(ctx)
	<-asked
	return err
}

// TestHastyAgent requires that a script with an agent that calls without pauses ends, and that the judge tells.
func TestHastyAgent(t *testing.T) {
	script, err := nodetest.ParseScript("hasty", []byte("apply p@p-1\ncalm\nend\n"))
	require.NoError(t, err)
	played := nodetest.PlayOn(t, func(o node.Options) (nodetest.Assembly, error) {
		a, err := nodetest.ReferenceAgent(o)
		return hasty{a, o}, err
	}, script)
	require.ErrorContains(t, played.Err, "calls to the runtime for p-1 in a second, PodStatus the last")
}
