// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/internal/retry"
)

func TestJudge(t *testing.T) {
	pods := v1.Resource("pods")
	generic := func(code int, retryAfter int) error {
		return apierrors.NewGenericServerResponse(code, "patch", pods, "a", "body", retryAfter, true)
	}
	anotherUID := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", field.ErrorList{
		field.Invalid(field.NewPath("metadata", "uid"), "1234", "field is immutable"),
	})
	tests := []struct {
		name       string
		err        error
		want       verdict
		retryAfter time.Duration
	}{
		{"done", nil, verdictDone, 0},
		{"not found", apierrors.NewNotFound(pods, "a"), verdictGone, 0},
		{"wrapped", fmt.Errorf("patching: %w", apierrors.NewNotFound(pods, "a")), verdictGone, 0},
		{"gone", generic(http.StatusGone, 0), verdictGone, 0},
		{"conflict", apierrors.NewConflict(pods, "a", errors.New("UID")), verdictConflict, 0},
		{"too many", apierrors.NewTooManyRequests("later", 3), verdictBusy, 3 * time.Second},
		{"too many, from a proxy", generic(http.StatusTooManyRequests, 2), verdictBusy, 2 * time.Second},
		{"invalid", apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", nil), verdictRejected, 0},
		{"invalid, without details", &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusUnprocessableEntity}}, verdictRejected, 0},
		{"another pod, as 1.36 says it", anotherUID, verdictConflict, 0},
		{"forbidden because of the UID", &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusForbidden, Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Field: "metadata.uid"}},
		}}}, verdictRejected, 0},
		{"forbidden", apierrors.NewForbidden(pods, "a", errors.New("no")), verdictRejected, 0},
		{"token expired", apierrors.NewUnauthorized("token"), verdictBusy, 0},
		{"internal", apierrors.NewInternalError(errors.New("etcd")), verdictFailed, 0},
		{"unavailable", generic(http.StatusServiceUnavailable, 5), verdictFailed, 5 * time.Second},
		{"server timeout", apierrors.NewServerTimeout(pods, "patch", 4), verdictFailed, 4 * time.Second},
		{"request timeout", generic(http.StatusRequestTimeout, 0), verdictFailed, 0},
		{"deadline", context.DeadlineExceeded, verdictFailed, 0},
		{"refused", errors.New("connection refused"), verdictFailed, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, retryAfter := judge(tc.err)
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.retryAfter, retryAfter)
		})
	}
}

func TestBackoff(t *testing.T) {
	exact := func(d time.Duration) time.Duration { return d }
	for n, want := range []time.Duration{1: 500, 2: 1000, 3: 2000, 4: 4000, 5: 8000, 6: 10000, 1000: 10000} {
		if want > 0 {
			assert.Equal(t, want*time.Millisecond, delay(n, 0, exact), n)
		}
	}
	assert.Equal(t, 30*time.Second, delay(1, 30*time.Second, exact), "as the server wants it")
	assert.Equal(t, 4*time.Second, delay(4, time.Second, exact), "not earlier than after that many failures")
	half := func(d time.Duration) time.Duration { return d + d/2 }
	assert.Equal(t, 45*time.Second, delay(1, 40*time.Second, half), "a quarter of it is jittered, so that nodes do not come back at once")
	for range 100 {
		d := delay(1, 8*time.Second, retry.AddUpToHalf)
		assert.GreaterOrEqual(t, d, 8*time.Second, "never before the server wants it")
		assert.Less(t, d, 9*time.Second+time.Millisecond)
	}
	negative := func(time.Duration) time.Duration { return -1 }
	assert.Zero(t, delay(3, 0, negative))
	assert.Equal(t, time.Second, delay(3, time.Second, negative))
}
