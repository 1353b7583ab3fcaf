// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime"
)

// hesitant is a runtime that takes time for CheckPod, which the loop calls.
type hesitant struct {
	runtime.Runtime
	going chan struct{}
}

// CheckPod implements runtime.Checker.
func (h hesitant) CheckPod(*v1.Pod) error {
	<-h.going
	return nil
}

func TestAnAgentWhoseLoopHangsIsNotAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		going := make(chan struct{})
		n := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) { o.Runtime = hesitant{o.Runtime, going} }})
		alive := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			return n.Agent.Alive(ctx)
		}
		require.NoError(t, alive())
		n.Apply(nodetest.Pod("p", nodetest.Container("c")))
		require.ErrorContains(t, alive(), "does not answer")
		close(going)
		n.Settle()
		require.NoError(t, alive())
		n.Shutdown()
		require.NoError(t, alive(), "one that ends is not stuck")
	})
}
