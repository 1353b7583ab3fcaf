// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// The message of a failed start has the name of the program. A name from a variable may be secret.
func TestStartErrorShowsNoVariable(t *testing.T) {
	in := &runtime.ContainerStatus{
		State: runtime.StateExited, ExitCode: 128, Reason: runtime.ReasonStartError,
		Message: `exec: "hunter2": executable file not found in $PATH`, FinishedAt: time.Unix(9, 0),
	}
	for name, tc := range map[string]struct {
		spec  v1.Container
		shown bool
	}{
		"a command":             {v1.Container{Command: []string{"hunter2", "$(TOKEN)"}}, true},
		"the image's":           {v1.Container{}, true},
		"a command of variable": {v1.Container{Command: []string{"/bin/$(TOKEN)"}}, false},
		"args of variable":      {v1.Container{Args: []string{"$(TOKEN)"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := terminated(&tc.spec, in)
			assert.Equal(t, tc.shown, got.Message == in.Message, got.Message)
			assert.Contains(t, got.Message, "execut")
			assert.Equal(t, time.Unix(0, 0), got.StartedAt.Time, "it never started")
			in := *in
			in.Reason, in.Message = runtime.ReasonError, "last words"
			assert.Equal(t, "last words", terminated(&tc.spec, &in).Message)
		})
	}
}
