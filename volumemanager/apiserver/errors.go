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

	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// Errors of this package.
var (
	// ErrOptions are Options that cannot work; the error names the field.
	ErrOptions = errors.New("volume API server: bad options")
	// ErrRunning is a second Run of one Objects.
	ErrRunning = errors.New("volume API server: Run was called before")
	// ErrStopped is what a call gets that would have to wait for a Run that has ended.
	ErrStopped = errors.New("volume API server: stopped")
)

// Verb is what was asked of the server.
type Verb string

// The verbs.
const (
	VerbGet    Verb = "get"
	VerbWatch  Verb = "watch"
	VerbCreate Verb = "create"
	VerbPatch  Verb = "patch"
	VerbUpdate Verb = "update"
	VerbDelete Verb = "delete"
)

// Reason tells kinds of problems apart.
type Reason string

// The reasons.
const (
	// ReasonUnauthorized: the credentials are not accepted (401).
	ReasonUnauthorized Reason = "Unauthorized"
	// ReasonForbidden: the node may not do that (403). The Node authorizer also says so of what no pod of the node uses,
	// as far as it has heard.
	ReasonForbidden Reason = "Forbidden"
	// ReasonNotFound: there is no such object (404). Of ConfigMaps and Secrets it is no problem but an answer.
	ReasonNotFound Reason = "NotFound"
	// ReasonExpired: the server has forgotten the state from which a watch was to go on (410).
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

// Error is a problem with the API server, in one line that holds nothing of an object.
type Error struct {
	// Ref is the ConfigMap or Secret; zero if the problem is about another object.
	Ref    objects.Ref
	Verb   Verb
	Reason Reason
	// Err is the server's *errors.StatusError (apimachinery), a *net.OpError or the like, or a text. What client-go says
	// of an answer that it could not decode is left out, because it repeats it.
	Err error
}

func (e *Error) Error() string {
	return string(e.Verb) + ": " + string(e.Reason) + ": " + oneLine(e.Err.Error())
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// outage tells whether the problem is the server's, and not one with this object. A watch may fail in these ways while
// the server answers.
func (e *Error) outage() bool { return e.Verb == VerbGet && ofServer(e.Reason) }

func ofServer(r Reason) bool {
	switch r {
	case ReasonUnauthorized, ReasonTooManyRequests, ReasonServer, ReasonUnreachable, ReasonTimeout:
		return true
	}
	return false
}

// delay is how long the server wants to be left alone.
func (e *Error) delay() time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(e.Err)
	return min(time.Duration(seconds)*time.Second, longestDelay)
}

// The texts for errors that tell too much or too little.
var (
	errBadAnswer = errors.New("the answer is not what an API server sends")
	errAtOnce    = errors.New("the watch ended as soon as it began")
)

// timeoutError is the cause of the end of a request's context.
type timeoutError struct{ after time.Duration }

func (e timeoutError) Error() string { return "no complete answer within " + e.after.String() }
func (e timeoutError) Timeout() bool { return true }

// problem makes an Error of what a client returned.
func problem(ref objects.Ref, verb Verb, err error) *Error {
	reason, err := judge(err)
	return &Error{Ref: ref, Verb: verb, Reason: reason, Err: err}
}

func judge(err error) (Reason, error) {
	if known, ok := errors.AsType[*Error](err); ok {
		return known.Reason, known.Err
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return judgeStatus(status)
	}
	if timeout, ok := errors.AsType[timeoutError](err); ok {
		return ReasonTimeout, timeout
	}
	if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() {
		return ReasonTimeout, context.DeadlineExceeded
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return ReasonUnreachable, op
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return ReasonUnreachable, io.ErrUnexpectedEOF
	}
	if _, ok := errors.AsType[net.Error](err); ok { // *url.Error is one, and repeats the URL
		return ReasonUnreachable, innermost(err)
	}
	return ReasonBadAnswer, errBadAnswer
}

// judgeStatus classifies a status. The error is the status, without what client-go has put into it of an answer that is
// none.
func judgeStatus(e *apierrors.StatusError) (Reason, error) {
	if apierrors.HasStatusCause(e, "ClientWatchDecoding") {
		return ReasonBadAnswer, errBadAnswer
	}
	strange := apierrors.HasStatusCause(e, metav1.CauseTypeUnexpectedServerResponse)
	if strange {
		plain := e.ErrStatus
		plain.Details, plain.Message = nil, http.StatusText(int(plain.Code))
		e = &apierrors.StatusError{ErrStatus: plain}
	}
	switch {
	case apierrors.IsUnauthorized(e):
		return ReasonUnauthorized, e
	case apierrors.IsForbidden(e):
		return ReasonForbidden, e
	case apierrors.IsNotFound(e) && strange:
		return ReasonBadAnswer, errBadAnswer // of a proxy, or of a server that has not all of its paths yet
	case apierrors.IsNotFound(e):
		return ReasonNotFound, e
	case apierrors.IsResourceExpired(e), apierrors.IsGone(e):
		return ReasonExpired, e
	case apierrors.IsTooManyRequests(e):
		return ReasonTooManyRequests, e
	}
	return ReasonServer, e
}

// isMissing tells whether the server has said of this very object that there is none.
func isMissing(err error, name string) bool {
	reason, err := judge(err)
	if reason != ReasonNotFound {
		return false
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Details != nil && status.ErrStatus.Details.Name == name
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
