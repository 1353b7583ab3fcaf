// SPDX-License-Identifier: Apache-2.0

package apiproxy

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reasons are the API server's names of its errors.
var reasons = map[int]metav1.StatusReason{
	http.StatusBadRequest:          metav1.StatusReasonBadRequest,
	http.StatusUnauthorized:        metav1.StatusReasonUnauthorized,
	http.StatusForbidden:           metav1.StatusReasonForbidden,
	http.StatusNotFound:            metav1.StatusReasonNotFound,
	http.StatusConflict:            metav1.StatusReasonConflict,
	http.StatusGone:                metav1.StatusReasonExpired,
	http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
	http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
	http.StatusGatewayTimeout:      metav1.StatusReasonTimeout,
}

// status returns the body of an error in the form of the API server.
func status(req Request, rule Rule) metav1.Status {
	seconds := int32(rule.RetryAfter / time.Second)
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Message:  http.StatusText(rule.Code) + ", says the proxy",
		Reason:   reasons[rule.Code],
		Details:  &metav1.StatusDetails{Name: req.Name, Group: req.Group, Kind: req.Resource, RetryAfterSeconds: seconds},
		Code:     int32(rule.Code),
	}
}

// answer gives the answer of a rule.
func answer(w http.ResponseWriter, req Request, rule Rule) {
	body, err := json.Marshal(status(req, rule))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if rule.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(rule.RetryAfter/time.Second)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(rule.Code)
	_, _ = w.Write(body) // the client may have closed the connection
}
