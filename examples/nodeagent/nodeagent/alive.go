// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"errors"
)

// Alive returns nil once the loop has turned, and an error if it has not by the end
// of ctx, as before Run. While the agent stops its pods there is no loop, and that
// is as it should be. Whether the runtime answers is another question; see Handler.
func (a *Agent) Alive(ctx context.Context) error {
	if a.stopping.Load() {
		return nil
	}
	select {
	case a.pings <- struct{}{}:
		return nil
	case <-ctx.Done():
		if a.stopping.Load() {
			return nil
		}
		return errors.New("the sync loop does not answer")
	}
}

// Ready returns nil if pods can run now: the loop turns, and the runtime answers.
// It waits for the loop until ctx ends.
func (a *Agent) Ready(ctx context.Context) error {
	if err := a.tracker.Health(); err != nil {
		return err
	}
	return a.Alive(ctx)
}
