// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/runtime"
)

// A runtime may fail a valid call. Each container of containerd has a process, the shim, which ends
// with the container. A call under way to the shim then fails with "ttrpc: closed", although the
// container ends as requested or has ended by itself. After such an error the backend therefore
// reads the object's state and acts on the state.

// How long a failing call is repeated, from the first failure on, as long as the runtime answers at
// all.
const (
	stopPatience = statusPatience
	diedPatience = lostPatience
)

// isFinal reports whether the answer would be the same another time.
func isFinal(err error) bool {
	e, ok := errors.AsType[*CallError](err)
	if !ok {
		return true // ctx has ended
	}
	switch e.Code {
	case codes.NotFound, codes.Unimplemented, codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.DeadlineExceeded:
		return true
	default:
		return false
	}
}

// connectionDied reports whether a call failed because a process on its way went away, so the call
// may or may not have had its effect.
func connectionDied(err error) bool {
	e, ok := errors.AsType[*CallError](err)
	if !ok || isFinal(err) {
		return false
	}
	// An error of the connection to a shim is passed on as text, with the code Unknown.
	died := []string{
		"ttrpc: closed", "ttrpc: server closed", "use of closed network connection",
		"broken pipe", "connection reset by peer", "connection refused", "transport is closing",
	}
	return e.Code == codes.Unavailable || e.Code == codes.Aborted ||
		strings.HasSuffix(e.Message, "EOF") ||
		slices.ContainsFunc(died, func(s string) bool { return strings.Contains(e.Message, s) })
}

// stopFirmly is stop with retries. After a failed stop, an ended container counts as stopped, and a
// running container is stopped again with the rest of grace. nil means the runtime confirmed the
// stop, or the container is created or exited.
func (r *client) stopFirmly(ctx context.Context, id string, grace time.Duration) error {
	began := time.Now()
	var failing time.Time
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		err := r.stop(ctx, id, max(0, grace-time.Since(began)))
		if _, refused := errors.AsType[*CallError](err); !refused || errors.Is(err, runtime.ErrNotFound) {
			return err
		}
		if failing.IsZero() {
			failing = time.Now()
		}
		st, look := r.containerStatus(ctx, id)
		switch {
		case errors.Is(look, runtime.ErrNotFound):
			return look
		case look == nil && !mayRun(st.GetState()):
			return nil
		case ctx.Err() == nil && (look != nil || isFinal(err) || time.Since(failing) > stopPatience):
			return err
		}
		if err := retry.Sleep(ctx, wait); err != nil {
			return fmt.Errorf("StopContainer: %w", err)
		}
	}
}

// again makes an idempotent call, and repeats the call while its connection dies, for at most
// diedPatience. exists looks for the object of the call before each repetition. The error is the
// error of the call, or the runtime.ErrNotFound of exists.
func again(ctx context.Context, call, exists func(context.Context) error) error {
	began := time.Now()
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		err := call(ctx)
		if !connectionDied(err) {
			return err
		}
		switch look := exists(ctx); {
		case errors.Is(look, runtime.ErrNotFound):
			return look
		case ctx.Err() == nil && (look != nil || time.Since(began) > diedPatience):
			return err
		}
		if err := retry.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

func (r *client) containerExists(id string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := r.containerStatus(ctx, id)
		return err
	}
}

func (r *client) sandboxExists(id runtime.SandboxID) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := r.sandboxStatus(ctx, string(id))
		return err
	}
}

// hasStarted reports whether the container has started although the start's call failed.
func (r *client) hasStarted(ctx context.Context, id string) bool {
	st, err := r.containerStatus(ctx, id)
	return err == nil && st.GetStartedAt() > 0 &&
		(st.GetState() == api.ContainerState_CONTAINER_RUNNING || st.GetState() == api.ContainerState_CONTAINER_EXITED)
}
