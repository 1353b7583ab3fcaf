// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
)

// StreamOptions configure Streams.
type StreamOptions struct {
	// Pods finds the pod of a request. Required.
	Pods PodFinder
	// Runtime has the containers. Required. A runtime.Streamer serves the connections itself, and
	// the Server connects the client with the Streamer. For a runtime.SessionExecer the Server
	// serves the connections: attach shows output only, and port-forward dials localhost
	// and then the pod's addresses.
	Runtime runtime.Runtime
	// IdleTimeout ends a session without input and output. Keepalive messages do not count. A client
	// of exec or attach is told, unless the runtime speaks the client's protocol itself. Defaults to
	// DefaultIdleTimeout. A negative value means no limit.
	IdleTimeout time.Duration
	// Logger receives errors after a connection was upgraded. Defaults to none.
	Logger *zap.Logger
}

// Streams serves the endpoints that upgrade a connection:
//
//	/exec/NAMESPACE/POD[/UID]/CONTAINER
//	/attach/NAMESPACE/POD[/UID]/CONTAINER
//	/portForward/NAMESPACE/POD[/UID]
//
// Clients speak SPDY, or the WebSocket protocols v4 and v5, or SPDY in a WebSocket (port-forward). So
// a Node may declare the feature ExtendWebSocketsToKubelet. Parameters and answers are those of the
// kubelet 1.36. As in the kubelet, exec and attach ignore the UID.
func Streams(opts StreamOptions) Group {
	opts.IdleTimeout = cmp.Or(opts.IdleTimeout, DefaultIdleTimeout)
	s := &streamServer{opts, connectorOf(opts)}
	s.Logger = cmp.Or(s.Logger, zap.NewNop())
	var routes []route
	for pattern, h := range map[string]http.HandlerFunc{
		"/exec/{namespace}/{pod}/{container}":         s.serveExec,
		"/exec/{namespace}/{pod}/{uid}/{container}":   s.serveExec,
		"/attach/{namespace}/{pod}/{container}":       s.serveAttach,
		"/attach/{namespace}/{pod}/{uid}/{container}": s.serveAttach,
		"/portForward/{namespace}/{pod}":              s.servePortForward,
		"/portForward/{namespace}/{pod}/{uid}":        s.servePortForward,
	} {
		routes = append(routes, route{http.MethodGet, pattern, h}, route{http.MethodPost, pattern, h})
	}
	return Group{routes}
}

// connector connects the client of a request with a container. It answers the request. The error is
// nil if the connection was upgraded or refused by the connector, and otherwise says why there is no
// connection.
type connector interface {
	exec(w http.ResponseWriter, r *http.Request, pod *v1.Pod, c *runtime.ContainerStatus, cmd []string, want runtime.Streams) error
	attach(w http.ResponseWriter, r *http.Request, pod *v1.Pod, c *runtime.ContainerStatus, want runtime.Streams) error
	portForward(w http.ResponseWriter, r *http.Request, pod *v1.Pod, sandbox *runtime.SandboxStatus, ports []int32) error
}

// connectorOf returns nil for a runtime without streams.
func connectorOf(opts StreamOptions) connector {
	if streamer, ok := opts.Runtime.(runtime.Streamer); ok {
		return &streamProxy{streamer, opts.IdleTimeout}
	}
	if execer, ok := opts.Runtime.(runtime.SessionExecer); ok {
		return &local{opts.Runtime, execer, opts.IdleTimeout}
	}
	return nil
}

// errNoStreams is the answer for a runtime without streams.
var errNoStreams = fmt.Errorf("exec, attach and port-forward: %w", runtime.ErrUnsupported)

type streamServer struct {
	StreamOptions
	connector connector // nil for a runtime without streams
}

func (s *streamServer) serveExec(w http.ResponseWriter, r *http.Request) {
	s.serve(w, r, `container not found ("%[1]s")`, func(pod *v1.Pod, c *runtime.ContainerStatus, want runtime.Streams) error {
		return s.connector.exec(w, r, pod, c, r.URL.Query()["command"], want)
	})
}

func (s *streamServer) serveAttach(w http.ResponseWriter, r *http.Request) {
	s.serve(w, r, "container %s not found in pod %s_%s", func(pod *v1.Pod, c *runtime.ContainerStatus, want runtime.Streams) error {
		spec := containerOf(pod, c.Name)
		want.TTY = spec != nil && spec.TTY
		want.Stderr = want.Stderr && !want.TTY
		return s.connector.attach(w, r, pod, c, want)
	})
}

// serve calls connect with the running instance of the container and the asked streams. unknown is
// the text for a container without a running instance, with the names of container, pod and
// namespace.
func (s *streamServer) serve(w http.ResponseWriter, r *http.Request, unknown string, connect func(*v1.Pod, *runtime.ContainerStatus, runtime.Streams) error) {
	asked, err := remotecommand.NewOptions(r)
	if err != nil {
		reply(w, http.StatusBadRequest, err.Error())
		return
	}
	pod, c, err := s.running(r)
	switch {
	case err != nil:
	case c == nil:
		err = fmt.Errorf(unknown, r.PathValue("container"), pod.Name, pod.Namespace)
	case s.connector == nil:
		err = errNoStreams
	default:
		err = connect(pod, c, runtime.Streams{Stdin: asked.Stdin, Stdout: asked.Stdout, Stderr: asked.Stderr, TTY: asked.TTY})
	}
	refuseStream(w, err)
}

func (s *streamServer) servePortForward(w http.ResponseWriter, r *http.Request) {
	if wsstream.IsWebSocketRequestWithTunnelingProtocol(r) {
		w, r = tunnel(w, r)
	}
	asked, err := portforward.NewV4Options(r)
	if err != nil {
		reply(w, http.StatusBadRequest, err.Error())
		return
	}
	pod := s.Pods(r.PathValue("namespace"), r.PathValue("pod"))
	switch uid := r.PathValue("uid"); {
	case pod == nil:
		refuseStream(w, errNoPod)
		return
	case uid != "" && uid != string(pod.UID):
		reply(w, http.StatusNotFound, "pod not found")
		return
	}
	status, err := s.Runtime.PodStatus(r.Context(), pod.UID)
	if err == nil && status.Current() == nil {
		err = fmt.Errorf("pod not found (%q)", pod.Name+"_"+pod.Namespace)
	}
	if err == nil && s.connector == nil {
		err = errNoStreams
	}
	if err == nil {
		err = s.connector.portForward(w, r, pod, status.Current(), asked.Ports)
	}
	refuseStream(w, err)
}

// errNoPod is the error for a pod that the node does not have.
var errNoPod = &refusedError{http.StatusNotFound, "pod does not exist"}

// running returns the pod of a request and the running instance of the container, or nil without a
// running instance. The error is errNoPod for an unknown pod.
func (s *streamServer) running(r *http.Request) (*v1.Pod, *runtime.ContainerStatus, error) {
	pod := s.Pods(r.PathValue("namespace"), r.PathValue("pod"))
	if pod == nil {
		return nil, nil, errNoPod
	}
	status, err := s.Runtime.PodStatus(r.Context(), pod.UID)
	if err != nil {
		return pod, nil, err
	}
	for _, c := range status.Running() {
		if c.Name == r.PathValue("container") {
			return pod, c, nil
		}
	}
	return pod, nil, nil
}

// refuseStream answers a request whose connection was not upgraded. It does nothing if err is nil.
func refuseStream(w http.ResponseWriter, err error) {
	if err == nil {
		return
	}
	code := http.StatusInternalServerError
	call, isCall := errors.AsType[*cri.CallError](err)
	refused, isRefused := errors.AsType[*refusedError](err)
	switch {
	case isRefused:
		code = refused.code
	case errors.Is(err, runtime.ErrNotFound):
		code = http.StatusNotFound
	case errors.Is(err, runtime.ErrUnsupported):
		code = http.StatusNotImplemented
	case isCall && call.Code == codes.ResourceExhausted:
		code = http.StatusTooManyRequests
		w.Header().Set("Retry-After", "60")
	}
	reply(w, code, err.Error())
}
