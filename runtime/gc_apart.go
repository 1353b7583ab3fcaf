// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"sync"
	"time"
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
	pace auditPace

	mu struct {
		sync.Mutex
		busy map[ContainerID]chan struct{} // closed at the end of the call
	}
}

func keepApart(rt Runtime) *apart {
	a := &apart{Runtime: rt, pace: auditPace{failed: time.Now()}}
	a.mu.busy = make(map[ContainerID]chan struct{})
	return a
}

// enter waits for the turn with a container. leave ends the turn.
func (a *apart) enter(ctx context.Context, id ContainerID) (leave func(), err error) {
	for {
		a.mu.Lock()
		before := a.mu.busy[id]
		if before == nil {
			done := make(chan struct{})
			a.mu.busy[id] = done
			a.mu.Unlock()
			return func() {
				a.mu.Lock()
				delete(a.mu.busy, id)
				a.mu.Unlock()
				close(done)
			}, nil
		}
		a.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
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
	leave, err := a.enter(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	return a.pace.note(call())
}
