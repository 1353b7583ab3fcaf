// SPDX-License-Identifier: Apache-2.0

package statustest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/statusmanager"
)

// Transport returns an http.RoundTripper to the server that needs no socket and works in virtual
// time. It tests a Patcher that speaks HTTP, for example with rest.Config{Host:
// "http://statustest", Transport: ...}. Transport serves GET and DELETE of
// /api/v1/namespaces/NAMESPACE/pods/NAME and PATCH of its status, in JSON. An error without an API
// status appears as a broken connection.
func (s *Server) Transport() http.RoundTripper { return transport{s} }

type transport struct{ server *Server }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, fmt.Errorf("statustest: reading the request: %w", err)
		}
	}
	pod, err := t.serve(r, body)
	var status apierrors.APIStatus
	switch {
	case err == nil && pod == nil:
		return answer(r, http.StatusOK, metav1.Status{TypeMeta: statusMeta, Status: metav1.StatusSuccess})
	case err == nil:
		pod = pod.DeepCopy()
		pod.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
		return answer(r, http.StatusOK, pod)
	case !errors.As(err, &status):
		return nil, err
	}
	failure := status.Status()
	failure.TypeMeta = statusMeta
	response, err := answer(r, int(failure.Code), failure)
	if d := failure.Details; err == nil && d != nil && d.RetryAfterSeconds != 0 {
		response.Header.Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	return response, err
}

var statusMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}

// serve carries out a request of HTTP; the pod is nil for a DELETE.
func (t transport) serve(r *http.Request, body []byte) (*v1.Pod, error) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	unknown := apierrors.NewBadRequest(fmt.Sprintf("statustest does not serve %s %s", r.Method, r.URL.Path))
	if len(parts) < 6 || strings.Join(parts[:3], "/") != "api/v1/namespaces" || parts[4] != "pods" {
		return nil, unknown
	}
	ref := statusmanager.PodRef{Namespace: parts[3], Name: parts[5]}
	switch {
	case r.Method == http.MethodGet && len(parts) == 6:
		return t.server.GetPod(r.Context(), ref)
	case r.Method == http.MethodPatch && len(parts) == 7 && parts[6] == "status" &&
		r.Header.Get("Content-Type") == string(types.StrategicMergePatchType):
		return t.server.PatchStatus(r.Context(), ref, body)
	case r.Method == http.MethodDelete && len(parts) == 6:
		var options metav1.DeleteOptions
		if err := json.Unmarshal(body, &options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if options.Preconditions == nil || options.Preconditions.UID == nil {
			return nil, apierrors.NewBadRequest("statustest deletes a pod on condition of its UID only")
		}
		ref.UID = *options.Preconditions.UID
		return nil, t.server.DeletePod(r.Context(), ref)
	}
	return nil, unknown
}

func answer(r *http.Request, code int, body any) (*http.Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("statustest: encoding the answer: %w", err)
	}
	return &http.Response{
		StatusCode: code, Status: strconv.Itoa(code) + " " + http.StatusText(code), Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(text)),
		Header: http.Header{"Content-Type": []string{"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)),
	}, nil
}
