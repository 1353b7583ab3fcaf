// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// Errors of this package.
var (
	// ErrOptions reports invalid Options; the error names the field.
	ErrOptions = errors.New("volume API server: bad options")
	// ErrRunning is returned by a second call of Run.
	ErrRunning = errors.New("volume API server: Run was called before")
	// ErrStopped is returned by a call that would have to wait for a Run that has ended.
	ErrStopped = errors.New("volume API server: stopped")
)

// The verbs.
const (
	verbGet    = "get"
	verbWatch  = "watch"
	verbCreate = "create"
	verbPatch  = "patch"
	verbUpdate = "update"
	verbDelete = "delete"
)

// Error is a failure of the API server, in one line without object content.
type Error struct {
	// Ref is the ConfigMap or Secret; zero for other objects.
	Ref objects.Ref
	// Verb is "get", "watch", "create", "patch", "update" or "delete".
	Verb string
	// Reason is the API's reason (Unauthorized, Forbidden, NotFound, Expired, TooManyRequests,
	// Timeout), or Server for any other status, Unreachable without a connection, BadAnswer for an
	// answer that does not fit the request. The Node authorizer also answers Forbidden if no pod of the
	// node uses the object, or if the authorizer does not know the pod yet.
	Reason metav1.StatusReason
	// Err is the server's *errors.StatusError (apimachinery), a network error such as *net.OpError,
	// or a text. Decoding errors of client-go are replaced, because they quote the answer.
	Err error
}

func (e *Error) Error() string {
	return e.Verb + ": " + string(e.Reason) + ": " + clientkit.OneLine(e.Err.Error())
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// outage reports whether the failure concerns the server rather than the object. Failures of a
// watch never count, because the server may still answer other requests.
func (e *Error) outage() bool { return e.Verb == verbGet && ofServer(e.Reason) }

func ofServer(r metav1.StatusReason) bool {
	switch r {
	case clientkit.Unauthorized, clientkit.TooManyRequests, clientkit.Server, clientkit.Unreachable, clientkit.Timeout:
		return true
	}
	return false
}

// delay returns the Retry-After of the server, at most longestDelay.
func (e *Error) delay() time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(e.Err)
	return min(time.Duration(seconds)*time.Second, longestDelay)
}

// problem converts an error of a client to an Error.
func problem(ref objects.Ref, verb string, err error) *Error {
	reason, err := judge(err)
	return &Error{Ref: ref, Verb: verb, Reason: reason, Err: err}
}

// judge returns the reason and the cause of an error.
func judge(err error) (metav1.StatusReason, error) {
	if known, ok := errors.AsType[*Error](err); ok {
		return known.Reason, known.Err
	}
	reason, err := clientkit.Judge(err)
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && reason == clientkit.NotFound && status.ErrStatus.Details == nil {
		return clientkit.BadAnswer, clientkit.ErrBadAnswer // from a proxy, or from a server that does not serve all paths yet
	}
	return reason, err
}

// isMissing reports whether the server has answered that the object called name does not exist.
func isMissing(err error, name string) bool {
	reason, err := judge(err)
	if reason != clientkit.NotFound {
		return false
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Details != nil && status.ErrStatus.Details.Name == name
}
