// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keelson-dev/keelson/runtime"
)

// ErrUnavailable means the socket does not answer. Calls fail at once with ErrUnavailable while the
// runtime is down, and work again within about a second of the runtime's return.
var ErrUnavailable = errors.New("the container runtime cannot be reached")

// How long a call may take, as in the kubelet.
const (
	callTimeout    = 2 * time.Minute
	sandboxTimeout = 2 * callTimeout
	noTimeout      = 0 // PullImage: bounded by ctx only
)

// CallError is a call refused or not answered by the runtime. Through CallError, errors.Is finds
// runtime.ErrNotFound, runtime.ErrUnsupported and ErrUnavailable.
type CallError struct {
	Call    string // the CRI's name of the call, as in "StartContainer"
	Code    codes.Code
	Message string // the runtime's words
	kind    error
}

// Error names the call, unless all callers say which image or container the call was about.
func (e *CallError) Error() string {
	text := e.Message
	if e.kind != nil {
		text = fmt.Sprintf("%v: %s", e.kind, e.Message)
	}
	switch e.Call {
	case "PullImage", "CreateContainer", "StartContainer":
		return text
	}
	return e.Call + ": " + text
}

func (e *CallError) Unwrap() error { return e.kind }

// rpc is a method of the generated clients.
type rpc[Q, A any] = func(context.Context, *Q, ...grpc.CallOption) (*A, error)

// do makes one call. The error is ctx's own if ctx has ended, else a *CallError.
func do[Q, A any](ctx context.Context, timeout time.Duration, name string, call rpc[Q, A], request *Q) (*A, error) {
	limited := ctx
	if timeout != noTimeout {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	answer, err := call(limited, request)
	return answer, callError(ctx, timeout, name, err)
}

// unknownID ends CRI-O's errors about a container or sandbox that does not exist. Only some of them
// have the code NotFound.
const unknownID = "not found: ID does not exist"

// callError translates an error of grpc.
func callError(ctx context.Context, timeout time.Duration, name string, err error) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		s = status.New(codes.Unknown, err.Error())
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", name, ctx.Err())
	}
	// The runtime also knows ctx's deadline, and the runtime's answer may arrive before ctx's own
	// timer fires. containerd 1.6 answers with the code Unknown then.
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return fmt.Errorf("%s: %w", name, context.DeadlineExceeded)
	}
	e := &CallError{Call: name, Code: s.Code(), Message: strings.ToValidUTF8(s.Message(), "?")}
	switch s.Code() {
	case codes.NotFound:
		e.kind = runtime.ErrNotFound
	case codes.Unimplemented:
		e.kind = runtime.ErrUnsupported
	case codes.Unavailable:
		e.kind = ErrUnavailable
	case codes.Unknown:
		if strings.HasSuffix(s.Message(), unknownID) {
			e.kind = runtime.ErrNotFound
		}
	case codes.DeadlineExceeded:
		if timeout != noTimeout {
			e.Message = fmt.Sprintf("no answer within %s", timeout)
		}
	}
	return e
}

// withoutKind removes the kind from a CallError where the kind would mislead the caller: a missing
// image is not a missing container.
func withoutKind(err error) error {
	if e, ok := errors.AsType[*CallError](err); ok {
		return &CallError{Call: e.Call, Code: e.Code, Message: e.Message}
	}
	return err
}

// goodID reports whether id may be an ID of the runtime. Other strings are not sent to the runtime
// and are never used as a file name.
func goodID(id string) bool {
	return strings.Trim(id, ".") != "" && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_' && r != '.'
	})
}

// notFound is the error for a malformed ID.
func notFound(call, id string) error {
	return &CallError{Call: call, Code: codes.NotFound, Message: fmt.Sprintf("%q is no ID of this runtime", id), kind: runtime.ErrNotFound}
}
