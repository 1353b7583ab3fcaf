// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"fmt"
)

// ExecRunner runs commands in containers that are named by the text of their IDs. ExecRunner
// implements the Runner of package prober/handlers, so that exec probes run in the containers of a
// Runtime.
type ExecRunner struct {
	// Runtime runs the commands. If Runtime does not implement Execer, each call fails with
	// ErrUnsupported.
	Runtime Runtime
}

// Exec runs cmd as Execer.Exec does. containerID is a ContainerID's text.
func (r ExecRunner) Exec(ctx context.Context, containerID string, cmd []string) (stdout, stderr []byte, exitCode int, err error) {
	execer, ok := r.Runtime.(Execer)
	if !ok {
		return nil, nil, 0, fmt.Errorf("run a command in container %s: %w", containerID, ErrUnsupported)
	}
	id, err := ParseContainerID(containerID)
	if err != nil {
		return nil, nil, 0, err
	}
	return execer.Exec(ctx, id, cmd)
}
