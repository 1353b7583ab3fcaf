// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// An agent with a call every few milliseconds is found, an agent with ten calls a second is not.
func TestCheckCountsCalls(t *testing.T) {
	every := func(pause time.Duration) (h nodetest.History) {
		for at := time.Duration(0); at < 3*time.Second; at += pause {
			h.Calls = append(h.Calls, fake.Entry{Call: fake.Call{Op: fake.OpPodStatus, UID: "p-1"}, At: at})
		}
		return h
	}
	require.ErrorContains(t, nodetest.Check(every(7*time.Millisecond)), "more than 100 calls to the runtime for p-1")
	require.NoError(t, nodetest.Check(every(100*time.Millisecond)))
}
