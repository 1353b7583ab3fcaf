// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// defaultContainer is the annotation with the container that kubectl chooses.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// serveKubelet passes a request to the endpoint of the kubelet under /PATH/NAMESPACE/POD/CONTAINER.
func (a *API) serveKubelet(path string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		pod := a.find(r.PathValue("namespace"), r.PathValue("name"))
		if pod == nil {
			refuse(w, apierrors.NewNotFound(v1.Resource("pods"), r.PathValue("name")))
			return
		}
		to := []string{"", path, pod.Namespace, pod.Name}
		query := r.URL.Query()
		if path != "portForward" {
			container, err := chooseContainer(pod, query.Get("container"))
			if err != nil {
				refuse(w, err)
				return
			}
			to = append(to, container)
		}
		passed := r.Clone(r.Context())
		passed.URL = &url.URL{Path: strings.Join(to, "/"), RawQuery: kubeletQuery(path, query).Encode()}
		errors := &statusWriter{ResponseWriter: w}
		a.Kubelet.ServeHTTP(errors, passed)
		errors.finish()
	}
}

// chooseContainer returns the named container or the default container of a pod.
func chooseContainer(pod *v1.Pod, name string) (string, error) {
	if name != "" {
		if slices.Contains(containerNames(pod), name) {
			return name, nil
		}
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
	}
	if name = pod.Annotations[defaultContainer]; name != "" {
		return chooseContainer(pod, name)
	}
	if len(pod.Spec.Containers) != 1 {
		var names []string
		for i := range pod.Spec.Containers {
			names = append(names, pod.Spec.Containers[i].Name)
		}
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %v", pod.Name, names))
	}
	return pod.Spec.Containers[0].Name, nil
}

func containerNames(pod *v1.Pod) (names []string) {
	for c := range podfacts.AllContainers(&pod.Spec) {
		names = append(names, c.Name)
	}
	return names
}

// kubeletQuery returns the parameters under the kubelet's names.
func kubeletQuery(path string, query url.Values) url.Values {
	query.Del("container")
	if path != "exec" && path != "attach" {
		return query
	}
	kept := url.Values{"command": query["command"]}
	for ours, theirs := range map[string]string{"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"} {
		if value := query.Get(ours); value == "true" || value == "1" {
			kept.Set(theirs, "1")
		}
	}
	return kept
}

// statusWriter turns an error in plain text into a Status.
type statusWriter struct {
	http.ResponseWriter
	code int // of the error; 0: none
	text bytes.Buffer
}

// Unwrap lets an http.ResponseController find the methods of the server's writer.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Flush implements http.Flusher.
func (s *statusWriter) Flush() {
	if s.code == 0 {
		_ = http.NewResponseController(s.ResponseWriter).Flush()
	}
}

// Hijack implements http.Hijacker.
func (s *statusWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(s.ResponseWriter).Hijack()
}

// WriteHeader implements http.ResponseWriter.
func (s *statusWriter) WriteHeader(code int) {
	if code >= http.StatusBadRequest {
		s.code = code
		return
	}
	s.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (s *statusWriter) Write(p []byte) (int, error) {
	if s.code != 0 {
		return s.text.Write(p)
	}
	return s.ResponseWriter.Write(p)
}

// finish sends the error, if there is one.
func (s *statusWriter) finish() {
	if s.code == 0 {
		return
	}
	answer(s.ResponseWriter, s.code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: int32(s.code), Reason: reasonOf(s.code), Message: strings.TrimSpace(s.text.String()),
	})
}
