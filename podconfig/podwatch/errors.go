// SPDX-License-Identifier: Apache-2.0

package podwatch

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/clientkit"
)

// The verbs. A failed watch-list is reported by the list that follows it.
const (
	verbList  = "list"
	verbWatch = "watch"
)

// Error is a problem with the API server, in a single line without data of pods.
type Error struct {
	// Verb is "list" or "watch".
	Verb string
	// Reason is the API's reason (Unauthorized, Forbidden, NotFound, Expired, TooManyRequests,
	// Timeout). It is Server for any other status, Unreachable without a connection, and BadAnswer
	// for an answer that is not a list or watch of pods.
	Reason metav1.StatusReason
	// Err is the server's *errors.StatusError (apimachinery), a *net.OpError or similar, or a text.
	// client-go's error for an undecodable answer is omitted, because it repeats the answer.
	Err error
}

func (e *Error) Error() string {
	return e.Verb + " pods: " + string(e.Reason) + ": " + clientkit.OneLine(e.Err.Error())
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// errOtherNode means that a server ignores the field selector.
var errOtherNode = errors.New("the server sends pods of other nodes, which are left out")

// problem converts a client's error to an Error.
func problem(verb string, err error) *Error {
	reason, err := clientkit.Judge(err)
	return &Error{Verb: verb, Reason: reason, Err: err}
}
