// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// HookRunner runs lifecycle handlers. Calls for different containers are
// concurrent. It returns when the handler has ended or ctx has; an error says
// that the hook failed, without the handler's output, which may hold secrets.
type HookRunner interface {
	RunHook(ctx context.Context, call HookCall) error
}

// HookCall is one handler to be run.
type HookCall struct {
	Pod       *v1.Pod
	Container *v1.Container
	ID        ContainerID
	PodIPs    []string // may be empty
	Handler   *v1.LifecycleHandler
}

// NewHooks returns the default HookRunner: exec through rt if it is an Execer,
// and sleep. Any other handler fails with ErrUnsupported.
func NewHooks(rt Runtime) HookRunner {
	exec, _ := rt.(Execer)
	return hooks{exec}
}

type hooks struct{ exec Execer }

func (h hooks) RunHook(ctx context.Context, call HookCall) error {
	switch handler := call.Handler; {
	case handler.Exec != nil && h.exec != nil:
		_, _, code, err := h.exec.Exec(ctx, call.ID, handler.Exec.Command)
		if err != nil {
			return fmt.Errorf("exec hook: %w", err)
		}
		if code != 0 {
			return fmt.Errorf("exec hook: exit code %d", code)
		}
		return nil
	case handler.Sleep != nil:
		timer := time.NewTimer(inSeconds(handler.Sleep.Seconds))
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("sleep hook: %w", context.Cause(ctx))
		}
	default:
		return fmt.Errorf("hook handler: %w", ErrUnsupported)
	}
}
