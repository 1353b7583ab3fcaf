// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/logs"
)

// A PodFinder returns the named pod with its live status, or nil if the node does not have the pod.
// The caller does not modify the pod.
type PodFinder func(namespace, name string) *v1.Pod

// LogOptions configure Logs.
type LogOptions struct {
	// Pods finds the pod of a request. Required.
	Pods PodFinder
	// Runtime tells the path of a container's log, and when the container has ended. Required.
	Runtime runtime.Runtime
	// Logger receives the errors that interrupt an answer. Defaults to none.
	Logger *zap.Logger
}

// Logs serves /containerLogs/NAMESPACE/POD/CONTAINER. Parameters and answers are those of the
// kubelet 1.36, with these differences: the parameter stream needs no feature gate and may be
// combined with tailLines. The answer is interrupted if the log cannot be read to its end; the
// kubelet appends the error to the log. An answer has no deadline as a whole, but each write has
// one.
func Logs(opts LogOptions) Group {
	l := &logServer{opts}
	l.Logger = cmp.Or(l.Logger, zap.NewNop())
	return get("/containerLogs/{namespace}/{pod}/{container}", l.serve)
}

type logServer struct{ LogOptions }

func (l *logServer) serve(w http.ResponseWriter, r *http.Request) {
	api, code, text := logOptions(r.URL.Query())
	if api == nil {
		reply(w, code, text)
		return
	}
	name, container := r.PathValue("pod"), r.PathValue("container")
	pod := l.Pods(r.PathValue("namespace"), name)
	switch {
	case pod == nil:
		reply(w, http.StatusNotFound, fmt.Sprintf("pod %q does not exist", name))
		return
	case containerOf(pod, container) == nil:
		reply(w, http.StatusNotFound, fmt.Sprintf("container %q not found in pod %q", container, name))
		return
	}
	request, err := l.request(r.Context(), pod, container, api)
	if err != nil {
		reply(w, http.StatusBadRequest, err.Error())
		return
	}
	l.copy(w, r, request, api)
}

// request chooses the instance of the container. Its errors reach the user of kubectl.
func (l *logServer) request(ctx context.Context, pod *v1.Pod, container string, api *v1.PodLogOptions) (logs.Request, error) {
	which := logs.Current
	if api.Previous {
		which = logs.Previous
	}
	id, err := logs.Choose(&pod.Status, container, which)
	var unavailable *logs.UnavailableError
	switch {
	case errors.As(err, &unavailable) && api.Previous:
		return logs.Request{}, fmt.Errorf("previous terminated container %q in pod %q not found", container, pod.Name)
	case errors.As(err, &unavailable):
		return logs.Request{}, fmt.Errorf("container %q in pod %q %s", container, pod.Name, unavailable.Why)
	case err != nil:
		return logs.Request{}, err
	}
	status, err := l.Runtime.PodStatus(ctx, pod.UID)
	if err != nil {
		return logs.Request{}, fmt.Errorf("unable to retrieve container logs for %s: %w", id, err)
	}
	for i := range status.Containers {
		if c := &status.Containers[i]; c.ID == id && c.LogPath != "" {
			options, err := logs.NewOptions(api, time.Now())
			return logs.Request{Path: c.LogPath, Options: options, Running: logs.Running(l.Runtime, pod.UID, id)}, err
		}
	}
	return logs.Request{}, fmt.Errorf("unable to retrieve container logs for %s: the container was removed", id)
}

// copy writes the log. The response begins before the first line, so that the client of a silent
// container sees the accepted request.
func (l *logServer) copy(w http.ResponseWriter, r *http.Request, request logs.Request, api *v1.PodLogOptions) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	out := flusher{r.Context(), w, http.NewResponseController(w)}
	defer whenDone(out.ctx, out.interrupt)()
	if api.Stream == nil || *api.Stream != v1.LogStreamStderr {
		request.Stdout = out
	}
	if api.Stream == nil || *api.Stream != v1.LogStreamStdout {
		request.Stderr = out
	}
	_, err := out.Write(nil)
	if err == nil {
		_, err = logs.Read(r.Context(), request)
	}
	if err == nil {
		_ = out.SetWriteDeadline(time.Time{}) // for later answers on this connection
		return
	}
	if r.Context().Err() == nil {
		l.Logger.Warn("a container's log could not be sent to its end", zap.String("pod", r.PathValue("namespace")+"/"+r.PathValue("pod")),
			zap.String("container", r.PathValue("container")), zap.Error(err))
	}
	out.interrupt() // the end of the answer is not written, so the client learns of the error
}

// writePatience is the longest time for the client to read the data of a write.
const writePatience = time.Minute

// flusher sends each write at once, until ctx ends.
type flusher struct {
	ctx context.Context
	io.Writer
	*http.ResponseController
}

func (f flusher) Write(p []byte) (int, error) {
	if err := f.SetWriteDeadline(time.Now().Add(writePatience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	if f.ctx.Err() != nil { // interrupt may have been called before the new deadline was set
		return 0, context.Cause(f.ctx)
	}
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.Flush()
	}
	return n, err
}

// interrupt makes a Write in progress return.
func (f flusher) interrupt() { _ = f.SetWriteDeadline(time.Unix(1, 0)) }

// whenDone calls f when ctx ends, unless the returned function was called before. The returned
// function waits for a call of f in progress: a ResponseController must not be used after the handler
// has returned.
func whenDone(ctx context.Context, f func()) (release func()) {
	called := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		f()
		close(called)
	})
	return func() {
		if !stop() {
			<-called
		}
	}
}

// containerOf returns the regular, init or ephemeral container of that name in the pod's spec, or nil.
func containerOf(pod *v1.Pod, name string) *v1.Container {
	for c := range podfacts.AllContainers(&pod.Spec) {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// reply writes an answer of plain text. Clients show the text as it is.
func reply(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text) // a client that has left cannot be told
}
