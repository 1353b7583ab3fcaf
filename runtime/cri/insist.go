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

	"github.com/keelson-dev/keelson/runtime"
)

// A runtime may fail at a call with nothing wrong about what was asked. Beside
// each container of containerd there is a process, the shim, that ends with it;
// a call that is on its way there then fails with "ttrpc: closed", while the
// container ends as it was told to, or has ended by itself. So who was told of
// such an error looks at what is, and goes by that.

// How long a call that fails is made again, from its first failure on, as long
// as the runtime answers at all.
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

// connectionDied reports whether a call failed because somebody it passed
// through went away, so that it is open whether it had its effect.
func connectionDied(err error) bool {
	e, ok := errors.AsType[*CallError](err)
	if !ok || isFinal(err) {
		return false
	}
	// What a connection to a shim says is passed on as text, with the code
	// Unknown.
	died := []string{
		"ttrpc: closed", "ttrpc: server closed", "use of closed network connection",
		"broken pipe", "connection reset by peer", "connection refused", "transport is closing",
	}
	return e.Code == codes.Unavailable || e.Code == codes.Aborted ||
		strings.HasSuffix(e.Message, "EOF") ||
		slices.ContainsFunc(died, func(s string) bool { return strings.Contains(e.Message, s) })
}

// stopFirmly is stop by a runtime that may fail at it: the container that has
// ended all the same is stopped, and one that has not is stopped again, with
// what is left of grace. nil means that the runtime says so, or that the
// container is created or exited.
func (r *Runtime) stopFirmly(ctx context.Context, id string, grace time.Duration) error {
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
		if err := pause(ctx, wait); err != nil {
			return fmt.Errorf("StopContainer: %w", err)
		}
	}
}

// again makes a call that may be made twice, and makes it again while it fails
// because a connection died, for as long as exists, which asks about what the
// call is for, gets an answer. The error is that of the call, or that there is
// no such thing any more.
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
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

func (r *Runtime) containerExists(id string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := r.containerStatus(ctx, id)
		return err
	}
}

func (r *Runtime) sandboxExists(id runtime.SandboxID) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := r.sandboxStatus(ctx, string(id))
		return err
	}
}

// hasStarted looks whether a start of which no more is known than that its call
// failed has been one.
func (r *Runtime) hasStarted(ctx context.Context, id string) bool {
	st, err := r.containerStatus(ctx, id)
	return err == nil && st.GetStartedAt() > 0 &&
		(st.GetState() == api.ContainerState_CONTAINER_RUNNING || st.GetState() == api.ContainerState_CONTAINER_EXITED)
}
