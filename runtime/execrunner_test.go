// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
)

// execing is a runtime that can only run commands.
type execing struct {
	runtime.Runtime
	ran runtime.ContainerID
}

func (e *execing) Exec(_ context.Context, id runtime.ContainerID, cmd []string) (stdout, stderr []byte, exitCode int, err error) {
	e.ran = id
	return []byte(cmd[0]), nil, 3, nil
}

func TestExecRunner(t *testing.T) {
	rt := &execing{}
	out, _, code, err := runtime.ExecRunner{Runtime: rt}.Exec(t.Context(), "fake://1", []string{"true"})
	require.NoError(t, err)
	assert.Equal(t, "true", string(out))
	assert.Equal(t, 3, code)
	assert.Equal(t, runtime.ContainerID{Runtime: "fake", ID: "1"}, rt.ran)

	_, _, _, err = runtime.ExecRunner{Runtime: rt}.Exec(t.Context(), "no ID", []string{"true"})
	require.ErrorContains(t, err, `"no ID"`)
	_, _, _, err = runtime.ExecRunner{Runtime: rt.Runtime}.Exec(t.Context(), "fake://1", []string{"true"})
	require.ErrorIs(t, err, runtime.ErrUnsupported)
}
