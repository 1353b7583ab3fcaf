// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// maxOutput is how much of each stream Exec returns, in bytes.
const maxOutput = 16 << 10

// Exec implements runtime.Execer by ExecSync. When ctx ends the runtime kills the command.
// Processes started by the command go on until the container ends, because the CRI knows only the
// command's process. Output beyond 16 MiB is an error.
func (r *client) Exec(ctx context.Context, id runtime.ContainerID, cmd []string) (stdout, stderr []byte, exitCode int, err error) {
	switch {
	case len(cmd) == 0:
		return nil, nil, 0, errors.New("ExecSync: no command")
	case !goodID(id.ID):
		return nil, nil, 0, notFound("ExecSync", id.ID)
	}
	answer, err := do(ctx, noTimeout, "ExecSync", r.cri.ExecSync, &api.ExecSyncRequest{
		ContainerId: id.ID, Cmd: cmd, Timeout: secondsLeft(ctx),
	})
	if e, ok := errors.AsType[*CallError](err); ok && e.Code == codes.DeadlineExceeded {
		// The runtime's clock was ahead of ours.
		return nil, nil, 0, context.DeadlineExceeded
	}
	if err != nil {
		return nil, nil, 0, err
	}
	return firstBytes(answer.GetStdout()), firstBytes(answer.GetStderr()), int(answer.GetExitCode()), nil
}

// secondsLeft returns the time until the deadline of ctx, rounded up, so that the runtime kills the
// command even if the agent has ended; 0: no limit.
func secondsLeft(ctx context.Context) int64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(1, int64((time.Until(deadline)+time.Second-1)/time.Second))
}

func firstBytes(b []byte) []byte { return b[:min(len(b), maxOutput):min(len(b), maxOutput)] }
