// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/retry"
)

// HookRunner runs lifecycle handlers. Calls for different containers are concurrent. RunHook
// returns at the end of the handler, or of ctx. An error means that the hook failed. The error does
// not contain the handler's output, which may hold secrets.
type HookRunner interface {
	RunHook(ctx context.Context, call HookCall) error
}

// HookCall is a call of a single handler.
type HookCall struct {
	Pod       *v1.Pod
	Container *v1.Container
	ID        ContainerID
	PodIPs    []string // of the container's sandbox, primary first; may be empty
	Handler   *v1.LifecycleHandler
}

// hooks is the default HookRunner: exec, httpGet and sleep, as in the kubelet 1.36. A tcpSocket
// handler fails with ErrUnsupported; the API allows none.
type hooks struct {
	exec   Execer // nil: exec handlers fail with ErrUnsupported
	events EventRecorder
	client *http.Client
	dialer PodDialer // nil: client connects with pods
}

// newHooks returns the default HookRunner. rt runs exec handlers if it is an Execer; events, which
// may be nil, receives LifecycleHTTPFallback.
func newHooks(rt Runtime, events EventRecorder) *hooks {
	exec, _ := rt.(Execer)
	dialer, _ := rt.(PodDialer)
	return &hooks{exec: exec, dialer: dialer, events: events, client: newHookClient((&net.Dialer{Timeout: hookDialTime}).DialContext)}
}

// RunHook implements HookRunner.
func (h *hooks) RunHook(ctx context.Context, call HookCall) error {
	switch handler := call.Handler; {
	case handler == nil:
		return errors.New("hook without a handler")
	case handler.Exec != nil:
		return h.run(ctx, call)
	case handler.HTTPGet != nil:
		return h.httpGet(ctx, call)
	case handler.Sleep != nil:
		if retry.Sleep(ctx, inSeconds(handler.Sleep.Seconds)) != nil {
			return fmt.Errorf("sleep hook: %w", context.Cause(ctx))
		}
		return nil
	case handler.TCPSocket != nil:
		return fmt.Errorf("tcpSocket hook: %w", ErrUnsupported)
	default:
		return errors.New("hook without a handler")
	}
}

func (h *hooks) run(ctx context.Context, call HookCall) error {
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
