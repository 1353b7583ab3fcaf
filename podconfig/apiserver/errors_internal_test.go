// SPDX-License-Identifier: Apache-2.0

package apiserver

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
)

const secret = "hunter2"

// TestProblem: what a client returns, and what is told of it.
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
		want Reason
		text string
	}{
		{"401", apierrors.NewUnauthorized("who"), ReasonUnauthorized, "who"},
		{"403", fmt.Errorf("wrapped: %w", apierrors.NewForbidden(pods, "", errors.New("no"))), ReasonForbidden, "pods is forbidden: no"},
		{"404", apierrors.NewNotFound(pods, ""), ReasonNotFound, `pods "" not found`},
		{"410 gone", &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonGone, Code: http.StatusGone, Message: "gone"}}, ReasonExpired, "gone"},
		{"410 expired", apierrors.NewResourceExpired("old"), ReasonExpired, "old"},
		{"429", apierrors.NewTooManyRequestsError("busy"), ReasonTooManyRequests, "Too many requests: busy"},
		{"504", apierrors.NewTimeoutError("slow", 0), ReasonServer, "Timeout: slow"},
		{"502 of a proxy", proxied, ReasonServer, "Bad Gateway"},
		{"undecodable event", &apierrors.StatusError{ErrStatus: *undecodable}, ReasonBadAnswer, errBadAnswer.Error()},
		{"connection lost in a stream", &apierrors.StatusError{ErrStatus: *lost}, ReasonUnreachable, "unexpected EOF"},
		{"undecodable list", errors.New("Object 'Kind' is missing in '" + secret + "'"), ReasonBadAnswer, errBadAnswer.Error()},
		{"refused", get(refused), ReasonUnreachable, "dial: connect: connection refused"},
		{"certificate", get(x509.UnknownAuthorityError{}), ReasonUnreachable, "x509: certificate signed by unknown authority"},
		{"cut", fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), ReasonUnreachable, "unexpected EOF"},
		{"end", get(io.EOF), ReasonUnreachable, "unexpected EOF"},
		{"our timeout", get(timeoutError{time.Minute}), ReasonTimeout, "no complete answer within 1m0s"},
		{"other timeout", get(context.DeadlineExceeded), ReasonTimeout, "context deadline exceeded"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := problem(VerbList, tc.err)
			require.Equal(t, tc.want, got.Reason)
			text := strings.Replace(got.Error(), "dial tcp:", "dial:", 1)
			require.Equal(t, "list pods: "+string(tc.want)+": "+tc.text, text)
			for err := error(got); err != nil; err = errors.Unwrap(err) {
				require.NotContains(t, err.Error(), secret)
			}
		})
	}
	long := problem(VerbWatch, apierrors.NewUnauthorized(strings.Repeat("ä\n", 1000)))
	require.LessOrEqual(t, len(long.Error()), 400)
	require.NotContains(t, long.Error(), "\n")
}

// A watch-list that fails is, for the reflector, one of three things.
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
