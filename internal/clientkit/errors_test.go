// SPDX-License-Identifier: Apache-2.0

package clientkit

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestJudge classifies an error of each kind. The texts repeat neither an answer nor a URL.
func TestJudge(t *testing.T) {
	const secret = "hunter2"
	pods := schema.GroupResource{Resource: "pods"}
	get := func(err error) error { return &url.Error{Op: "Get", URL: "https://u:" + secret + "@h/", Err: err} }
	undecoded := func(text string) error {
		status := apierrors.NewClientErrorReporter(500, "watch", "ClientWatchDecoding").AsObject(errors.New(text)).(*metav1.Status)
		return &apierrors.StatusError{ErrStatus: *status}
	}
	for _, tc := range []struct {
		name string
		err  error
		want metav1.StatusReason
	}{
		{"401", apierrors.NewUnauthorized("no"), Unauthorized},
		{"403, wrapped", fmt.Errorf("w: %w", apierrors.NewForbidden(pods, "", errors.New("no"))), Forbidden},
		{"404", apierrors.NewNotFound(pods, "web"), NotFound},
		{"404 of a proxy", apierrors.NewGenericServerResponse(http.StatusNotFound, "get", pods, "", secret, 0, true), NotFound},
		{"410", apierrors.NewResourceExpired("old"), Expired},
		{"429", apierrors.NewTooManyRequestsError("busy"), TooManyRequests},
		{"504 is the server's word", apierrors.NewTimeoutError("slow", 0), Server},
		{"event that is none", undecoded(secret), BadAnswer},
		{"event that was cut", undecoded("unable to decode: http2: client connection lost"), Unreachable},
		{"our timeout", get(TimeoutError{After: time.Minute}), Timeout},
		{"refused", get(&net.OpError{Op: "dial", Err: errors.New("refused")}), Unreachable},
		{"end", get(io.EOF), Unreachable},
		{"other", errors.New(secret), BadAnswer},
	} {
		t.Run(tc.name, func(t *testing.T) {
			reason, err := Judge(tc.err)
			assert.Equal(t, tc.want, reason)
			assert.NotContains(t, OneLine(err.Error()), secret)
		})
	}
	assert.LessOrEqual(t, len(OneLine(strings.Repeat("ä\n", 1000))), shownBytes+len("…"))
}
