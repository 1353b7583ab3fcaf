// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/keelson-dev/keelson/runtime"
)

func (e *env) background() context.Context { return context.WithoutCancel(e.Context()) }

func miniAgent() {}

func TestRunAndExit(t *testing.T) {
	e := newEnv(t)
	pod := e.pod(`echo hello; echo oops >&2; exit 3`)
	_, id := e.run(pod)
	c := e.exited(pod)
	assert.Equal(t, id, c.ID)
	assert.Equal(t, int32(3), c.ExitCode)
	assert.Equal(t, runtime.ReasonError, c.Reason)
	assert.False(t, c.StartedAt.IsZero())
	assert.False(t, c.FinishedAt.Before(c.StartedAt))
	assert.Equal(t, "hello\noops\n", e.log(pod, 0))
}
