// SPDX-License-Identifier: Apache-2.0

package podwatch

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/internal/clientkit"
)

const secret = "hunter2"

// TestProblem tests the reports for errors of a client.
func TestProblem(t *testing.T) {
	get := func(err error) error {
		return &url.Error{Op: "Get", URL: "https://u:" + secret + "@h/?" + secret, Err: err}
	}
	pods := schema.GroupResource{Resource: "pods"}
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	proxied := apierrors.NewGenericServerResponse(http.StatusBadGateway, "get", pods, "", "<html>"+secret, 0, true)
	undecodable := apierrors.NewClientErrorReporter(500, "watch", "ClientWatchDecoding").AsObject(errors.New(secret)).(*metav1.Status)
	lost := apierrors.NewClientErrorReporter(500, "watch", "ClientWatchDecoding").AsObject(
		errors.New("unable to decode an event from the watch stream: http2: client connection lost")).(*metav1.Status)
	tests := []struct {
		name string
		err  error
		want metav1.StatusReason
		text string
	}{
		{"401", apierrors.NewUnauthorized("who"), clientkit.Unauthorized, "who"},
		{"403", fmt.Errorf("wrapped: %w", apierrors.NewForbidden(pods, "", errors.New("no"))), clientkit.Forbidden, "pods is forbidden: no"},
		{"404", apierrors.NewNotFound(pods, ""), clientkit.NotFound, `pods "" not found`},
		{"410 gone", &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonGone, Code: http.StatusGone, Message: "gone"}}, clientkit.Expired, "gone"},
		{"410 expired", apierrors.NewResourceExpired("old"), clientkit.Expired, "old"},
		{"429", apierrors.NewTooManyRequestsError("busy"), clientkit.TooManyRequests, "Too many requests: busy"},
		{"504", apierrors.NewTimeoutError("slow", 0), clientkit.Server, "Timeout: slow"},
		{"502 of a proxy", proxied, clientkit.Server, "Bad Gateway"},
		{"undecodable event", &apierrors.StatusError{ErrStatus: *undecodable}, clientkit.BadAnswer, clientkit.ErrBadAnswer.Error()},
		{"connection lost in a stream", &apierrors.StatusError{ErrStatus: *lost}, clientkit.Unreachable, "unexpected EOF"},
		{"undecodable list", errors.New("Object 'Kind' is missing in '" + secret + "'"), clientkit.BadAnswer, clientkit.ErrBadAnswer.Error()},
		{"refused", get(refused), clientkit.Unreachable, "dial: connect: connection refused"},
		{"certificate", get(x509.UnknownAuthorityError{}), clientkit.Unreachable, "x509: certificate signed by unknown authority"},
		{"cut", fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), clientkit.Unreachable, "unexpected EOF"},
		{"end", get(io.EOF), clientkit.Unreachable, "unexpected EOF"},
		{"our timeout", get(clientkit.TimeoutError{After: time.Minute}), clientkit.Timeout, "no complete answer within 1m0s"},
		{"other timeout", get(context.DeadlineExceeded), clientkit.Timeout, "context deadline exceeded"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := problem(verbList, tc.err)
			require.Equal(t, tc.want, got.Reason)
			text := strings.Replace(got.Error(), "dial tcp:", "dial:", 1)
			require.Equal(t, "list pods: "+string(tc.want)+": "+tc.text, text)
			for err := error(got); err != nil; err = errors.Unwrap(err) {
				require.NotContains(t, err.Error(), secret)
			}
		})
	}
	long := problem(verbWatch, apierrors.NewUnauthorized(strings.Repeat("ä\n", 1000)))
	require.LessOrEqual(t, len(long.Error()), 400)
	require.NotContains(t, long.Error(), "\n")
}

// A failed watch-list leads the reflector to one of three actions.
func TestUnstreamed(t *testing.T) {
	expired, busy := apierrors.NewResourceExpired("old"), apierrors.NewTooManyRequestsError("busy")
	c := &client{}
	require.ErrorIs(t, c.unstreamed(expired), expired, "once it may try again")
	require.ErrorIs(t, c.unstreamed(expired), errUnstreamed)
	require.ErrorIs(t, c.unstreamed(errors.New("other")), errUnstreamed)
	require.NoError(t, c.refused)
	require.ErrorIs(t, c.unstreamed(busy), errUnstreamed)
	require.ErrorIs(t, c.refused, busy)
}
