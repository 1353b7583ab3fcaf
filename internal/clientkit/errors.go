// SPDX-License-Identifier: Apache-2.0

// Package clientkit is shared by clients of an API server. It classifies errors, and produces error texts without
// content of an object or a URL.
package clientkit

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The reasons of problems: reasons of the API, and three reasons for requests without an API status.
const (
	// Unauthorized: the credentials are not accepted (401).
	Unauthorized = metav1.StatusReasonUnauthorized
	// Forbidden: the node has no permission (403).
	Forbidden = metav1.StatusReasonForbidden
	// NotFound: the object does not exist, or the server does not serve the resource (404).
	NotFound = metav1.StatusReasonNotFound
	// Expired: the server no longer has the resource version of a watch (410).
	Expired = metav1.StatusReasonExpired
	// TooManyRequests: the server is busy (429).
	TooManyRequests = metav1.StatusReasonTooManyRequests
	// Timeout: no complete answer came in time.
	Timeout = metav1.StatusReasonTimeout
	// Server: any other API status.
	Server metav1.StatusReason = "Server"
	// Unreachable: the connection failed, or ended at once.
	Unreachable metav1.StatusReason = "Unreachable"
	// BadAnswer: the answer has an unexpected kind.
	BadAnswer metav1.StatusReason = "BadAnswer"
)

// The replacements for errors with too much or too little detail.
var (
	ErrBadAnswer = errors.New("the answer is not what an API server sends")
	ErrAtOnce    = errors.New("the watch ended as soon as it began")
)

// TimeoutError is the cause of the end of a request's context.
type TimeoutError struct{ After time.Duration }

func (e TimeoutError) Error() string { return "no complete answer within " + e.After.String() }

// Timeout makes TimeoutError a timeout in the sense of net.Error.
func (e TimeoutError) Timeout() bool { return true }

// Judge returns the reason of a client's error, and the error without parts of an answer or a URL.
func Judge(err error) (metav1.StatusReason, error) {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return judgeStatus(status)
	}
	if timeout, ok := errors.AsType[TimeoutError](err); ok {
		return Timeout, timeout
	}
	if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() {
		return Timeout, context.DeadlineExceeded
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return Unreachable, op
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return Unreachable, io.ErrUnexpectedEOF
	}
	if _, ok := errors.AsType[net.Error](err); ok { // *url.Error is a net.Error and repeats the URL
		return Unreachable, innermost(err)
	}
	return BadAnswer, ErrBadAnswer
}

// judgeStatus classifies a status. The error is the status, without the parts copied by client-go from an answer
// without a status.
func judgeStatus(e *apierrors.StatusError) (metav1.StatusReason, error) {
	if apierrors.HasStatusCause(e, "ClientWatchDecoding") {
		if isAboutConnection(e.ErrStatus.Message) {
			return Unreachable, io.ErrUnexpectedEOF
		}
		return BadAnswer, ErrBadAnswer
	}
	if apierrors.HasStatusCause(e, metav1.CauseTypeUnexpectedServerResponse) {
		plain := e.ErrStatus
		plain.Details, plain.Message = nil, http.StatusText(int(plain.Code))
		e = &apierrors.StatusError{ErrStatus: plain}
	}
	switch {
	case apierrors.IsUnauthorized(e):
		return Unauthorized, e
	case apierrors.IsForbidden(e):
		return Forbidden, e
	case apierrors.IsNotFound(e):
		return NotFound, e
	case apierrors.IsResourceExpired(e), apierrors.IsGone(e):
		return Expired, e
	case apierrors.IsTooManyRequests(e):
		return TooManyRequests, e
	}
	return Server, e
}

// isAboutConnection reports whether a watch failed to decode an event because the connection ended. client-go keeps
// only the text of the error.
func isAboutConnection(text string) bool {
	for _, part := range []string{"http2: ", "stream error: ", "read tcp ", "EOF", "use of closed network connection"} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// innermost returns the end of a chain of errors.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// shownBytes bounds how much of a server's message is repeated.
const shownBytes = 300

// OneLine returns text as one line of bounded length.
func OneLine(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?")
	if len(text) > shownBytes {
		text = strings.ToValidUTF8(text[:shownBytes], "") + "…"
	}
	return text
}
