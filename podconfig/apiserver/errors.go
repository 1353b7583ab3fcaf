// SPDX-License-Identifier: Apache-2.0

package apiserver

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

// Verb is what was asked of the server.
type Verb string

// The verbs. A watch-list that fails is followed by a list, which tells why.
const (
	VerbList  Verb = "list"
	VerbWatch Verb = "watch"
)

// Reason tells kinds of problems apart.
type Reason string

// The reasons.
const (
	// ReasonUnauthorized: the credentials are not accepted (401).
	ReasonUnauthorized Reason = "Unauthorized"
	// ReasonForbidden: the node may not read its pods (403).
	ReasonForbidden Reason = "Forbidden"
	// ReasonNotFound: what answers serves no pods (404).
	ReasonNotFound Reason = "NotFound"
	// ReasonExpired: the server has forgotten the state that was known here (410). A list follows; nothing is lost.
	ReasonExpired Reason = "Expired"
	// ReasonTooManyRequests: the server is busy (429).
	ReasonTooManyRequests Reason = "TooManyRequests"
	// ReasonServer: any other status.
	ReasonServer Reason = "Server"
	// ReasonUnreachable: there is no connection, or it ended at once.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonTimeout: the answer took too long.
	ReasonTimeout Reason = "Timeout"
	// ReasonBadAnswer: what came is not what was asked for.
	ReasonBadAnswer Reason = "BadAnswer"
)

// Error is a problem with the API server, in one line that holds nothing of a pod.
type Error struct {
	Verb   Verb
	Reason Reason
	// Err is the server's *errors.StatusError (apimachinery), a *net.OpError or the like, or a text. What client-go says
	// of an answer that it could not decode is left out, because it repeats it.
	Err error
}

func (e *Error) Error() string {
	return string(e.Verb) + " pods: " + string(e.Reason) + ": " + oneLine(e.Err.Error())
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Temporary tells whether the problem may be over soon without anybody's doing.
func (e *Error) Temporary() bool {
	switch e.Reason {
	case ReasonUnauthorized, ReasonForbidden, ReasonNotFound, ReasonBadAnswer:
		return false
	}
	return true
}

// The texts for errors that tell too much or too little.
var (
	errBadAnswer = errors.New("the answer is not what an API server sends")
	errOtherNode = errors.New("the server sends pods of other nodes, which are left out")
	errAtOnce    = errors.New("the watch ended as soon as it began")
)

// timeoutError is the cause of the end of a request's context.
type timeoutError struct{ after time.Duration }

func (e timeoutError) Error() string { return "no complete answer within " + e.after.String() }
func (e timeoutError) Timeout() bool { return true }

// problem makes an Error of what a client returned.
func problem(verb Verb, err error) *Error {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		reason, err := statusReason(status)
		return &Error{Verb: verb, Reason: reason, Err: err}
	}
	if timeout, ok := errors.AsType[timeoutError](err); ok {
		return &Error{Verb: verb, Reason: ReasonTimeout, Err: timeout}
	}
	if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() {
		return &Error{Verb: verb, Reason: ReasonTimeout, Err: context.DeadlineExceeded}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return &Error{Verb: verb, Reason: ReasonUnreachable, Err: op}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return &Error{Verb: verb, Reason: ReasonUnreachable, Err: io.ErrUnexpectedEOF}
	}
	if _, ok := errors.AsType[net.Error](err); ok { // *url.Error is one, and repeats the URL
		return &Error{Verb: verb, Reason: ReasonUnreachable, Err: innermost(err)}
	}
	return &Error{Verb: verb, Reason: ReasonBadAnswer, Err: errBadAnswer}
}

// statusReason classifies a status. The error is the status, without what client-go has put into it of an answer that
// is no status.
func statusReason(e *apierrors.StatusError) (Reason, error) {
	if apierrors.HasStatusCause(e, "ClientWatchDecoding") {
		if isAboutConnection(e.ErrStatus.Message) {
			return ReasonUnreachable, io.ErrUnexpectedEOF
		}
		return ReasonBadAnswer, errBadAnswer
	}
	if apierrors.HasStatusCause(e, metav1.CauseTypeUnexpectedServerResponse) {
		plain := e.ErrStatus
		plain.Details, plain.Message = nil, http.StatusText(int(plain.Code))
		e = &apierrors.StatusError{ErrStatus: plain}
	}
	switch {
	case apierrors.IsUnauthorized(e):
		return ReasonUnauthorized, e
	case apierrors.IsForbidden(e):
		return ReasonForbidden, e
	case apierrors.IsNotFound(e):
		return ReasonNotFound, e
	case apierrors.IsResourceExpired(e), apierrors.IsGone(e):
		return ReasonExpired, e
	case apierrors.IsTooManyRequests(e):
		return ReasonTooManyRequests, e
	}
	return ReasonServer, e
}

// isAboutConnection tells whether a watch failed to decode an event because there was no more of it. client-go has made
// a text of the error.
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

func oneLine(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?")
	if len(text) > shownBytes {
		text = strings.ToValidUTF8(text[:shownBytes], "") + "…"
	}
	return text
}
