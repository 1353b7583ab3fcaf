// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"encoding/json"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errNoResource is the answer for unknown paths.
var errNoResource = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
	Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{}, // kubectl debug wants details
}}

// answer writes a value as JSON.
func answer(w http.ResponseWriter, code int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		refuse(w, apierrors.NewInternalError(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // a client that has left cannot be told
}

// refuse writes an error as a Status. An error without a Status is an internal error.
func refuse(w http.ResponseWriter, err error) {
	status := statusOf(err)
	answer(w, int(status.Code), status)
}

func statusOf(err error) *metav1.Status {
	known, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return &status
}

// reasonOf returns the reason of a Status for a code of HTTP.
func reasonOf(code int) metav1.StatusReason {
	switch code {
	case http.StatusBadRequest:
		return metav1.StatusReasonBadRequest
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	case http.StatusTooManyRequests:
		return metav1.StatusReasonTooManyRequests
	case http.StatusServiceUnavailable:
		return metav1.StatusReasonServiceUnavailable
	}
	return metav1.StatusReasonInternalError
}
