// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"time"

	"github.com/keelson-dev/keelson/internal/keylock"
)

// apart prevents concurrent changing calls for a container. Garbage collection works beside the
// goroutines of the pods, and both may handle the same ended instance. The second call waits until
// the first has ended or its ctx ends. Calls for different containers never wait for each other.
//
// apart also notes failed calls for auditPace.
//
// apart implements only Runtime. Optional abilities are looked up on the wrapped Runtime.
type apart struct {
	Runtime
	pace  auditPace
	turns keylock.Locks[ContainerID]
}

func keepApart(rt Runtime) *apart {
	return &apart{Runtime: rt, pace: auditPace{failed: time.Now()}}
}

func (a *apart) RunSandbox(ctx context.Context, spec SandboxSpec) (SandboxID, error) {
	made, err := a.Runtime.RunSandbox(ctx, spec)
	return made, a.pace.note(err)
}

func (a *apart) StopSandbox(ctx context.Context, id SandboxID) error {
	return a.pace.note(a.Runtime.StopSandbox(ctx, id))
}

func (a *apart) RemoveSandbox(ctx context.Context, id SandboxID) error {
	return a.pace.note(a.Runtime.RemoveSandbox(ctx, id))
}

func (a *apart) CreateContainer(ctx context.Context, sandbox SandboxID, spec ContainerSpec) (ContainerID, error) {
	made, err := a.Runtime.CreateContainer(ctx, sandbox, spec)
	return made, a.pace.note(err)
}

func (a *apart) StartContainer(ctx context.Context, id ContainerID) error {
	return a.inTurn(ctx, id, func() error { return a.Runtime.StartContainer(ctx, id) })
}

func (a *apart) StopContainer(ctx context.Context, id ContainerID, grace time.Duration) error {
	return a.inTurn(ctx, id, func() error { return a.Runtime.StopContainer(ctx, id, grace) })
}

func (a *apart) RemoveContainer(ctx context.Context, id ContainerID) error {
	return a.inTurn(ctx, id, func() error { return a.Runtime.RemoveContainer(ctx, id) })
}

// inTurn makes a call for a container.
func (a *apart) inTurn(ctx context.Context, id ContainerID, call func() error) error {
	leave, err := a.turns.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	return a.pace.note(call())
}
