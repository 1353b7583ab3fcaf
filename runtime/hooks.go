// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
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
	PodIPs    []string // of the container's sandbox, primary first; may be empty
	Handler   *v1.LifecycleHandler
}

// HooksOptions configure Hooks.
type HooksOptions struct {
	// Runtime runs exec handlers, if it is an Execer. Defaults to none: exec
	// handlers then fail with ErrUnsupported.
	Runtime Runtime
	// Events receives LifecycleHTTPFallback. Defaults to none.
	Events EventRecorder
	// Dial reaches the servers of httpGet handlers. Defaults to a net.Dialer that
	// waits 30 s for a connection.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Hooks is the default HookRunner: exec, httpGet and sleep, as in the kubelet
// 1.36. A tcpSocket handler fails with ErrUnsupported; the API allows none. No
// handler has a time limit of its own: ctx is the limit.
//
// It keeps no connection and no goroutine between calls.
type Hooks struct {
	exec   Execer // nil: none
	events EventRecorder
	client *http.Client
}

// NewHooks makes a Hooks. It calls nothing.
func NewHooks(opts HooksOptions) *Hooks {
	exec, _ := opts.Runtime.(Execer)
	return &Hooks{exec: exec, events: opts.Events, client: newHookClient(opts.Dial)}
}

// RunHook implements HookRunner.
func (h *Hooks) RunHook(ctx context.Context, call HookCall) error {
	switch handler := call.Handler; {
	case handler == nil:
		return errors.New("hook without a handler")
	case handler.Exec != nil:
		return h.run(ctx, call)
	case handler.HTTPGet != nil:
		return h.httpGet(ctx, call)
	case handler.Sleep != nil:
		return pause(ctx, handler.Sleep)
	case handler.TCPSocket != nil:
		return fmt.Errorf("tcpSocket hook: %w", ErrUnsupported)
	default:
		return errors.New("hook without a handler")
	}
}

func (h *Hooks) run(ctx context.Context, call HookCall) error {
	if h.exec == nil {
		return fmt.Errorf("exec hook: %w", ErrUnsupported)
	}
	_, _, code, err := h.exec.Exec(ctx, call.ID, call.Handler.Exec.Command)
	switch {
	case err != nil:
		return fmt.Errorf("exec hook: %w", err)
	case code != 0:
		return fmt.Errorf("exec hook: exit code %d", code)
	default:
		return nil
	}
}

func pause(ctx context.Context, action *v1.SleepAction) error {
	timer := time.NewTimer(inSeconds(action.Seconds))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("sleep hook: %w", context.Cause(ctx))
	}
}
