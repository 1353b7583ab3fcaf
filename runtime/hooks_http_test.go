// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/runtime"
)

// httpHook is an httpGet hook of a container on 127.0.0.1.
type httpHook struct {
	action v1.HTTPGetAction
	ports  []v1.ContainerPort
	pod    v1.Pod
	ips    []string
	events *recorder
}

func hookTo(server *httptest.Server) *httpHook {
	h := &httpHook{ips: []string{"127.0.0.1"}, events: &recorder{}}
	if server != nil {
		h.action.Port = intstr.FromInt32(portOf(server.Listener))
	}
	return h
}

func portOf(l net.Listener) int32 { return int32(l.Addr().(*net.TCPAddr).Port) }

func (h *httpHook) run(ctx context.Context) error {
	pod := h.pod.DeepCopy()
	pod.Spec.Containers = []v1.Container{{Name: "c", Ports: h.ports}}
	hooks := runtime.NewHooks(nil, h.events)
	return hooks.RunHook(ctx, runtime.HookCall{
		Pod: pod, Container: &pod.Spec.Containers[0], PodIPs: h.ips, Handler: &v1.LifecycleHandler{HTTPGet: &h.action},
	})
}

// asked collects the requests to a server.
type asked struct {
	mu   sync.Mutex
	list []*http.Request
}

func (a *asked) serve(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a.note(r)
		w.WriteHeader(status)
	}
}

func (a *asked) note(r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, r)
}

func (a *asked) all() []*http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.list
}

func serverOf(t *testing.T, h http.Handler) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func TestHTTPHookRequest(t *testing.T) {
	var got asked
	server := serverOf(t, got.serve(http.StatusInternalServerError)) // any answer is success
	number := portOf(server.Listener)
	for _, c := range []struct {
		name  string
		set   func(*httpHook)
		check func(*http.Request)
	}{
		{"defaults", func(*httpHook) {}, func(r *http.Request) {
			require.Equal(t, "GET / HTTP/1.1", r.Method+" "+r.RequestURI+" "+r.Proto)
			require.Equal(t, server.Listener.Addr().String(), r.Host)
			require.Equal(t, "kube-lifecycle/1.36 (keelson)", r.UserAgent())
			require.Equal(t, http.Header{"Accept": {"*/*"}, "User-Agent": {r.UserAgent()}, "Connection": {"close"}}, r.Header)
		}},
		{"a path and a query", func(h *httpHook) { h.action.Path = "/a b?c=d%20e#f" },
			func(r *http.Request) { require.Equal(t, "/a%20b?c=d%20e", r.RequestURI) }},
		{"a path without a slash", func(h *httpHook) { h.action.Path = "a" },
			func(r *http.Request) { require.Equal(t, "/a", r.RequestURI) }},
		{"a path is no host", func(h *httpHook) { h.action.Path = "//example.com/a" },
			func(r *http.Request) { require.Equal(t, "/a", r.RequestURI) }},
		{"a path that is none", func(h *httpHook) { h.action.Path = "/%zz" },
			func(r *http.Request) { require.Equal(t, "/%25zz", r.RequestURI) }},
		{"headers", func(h *httpHook) {
			h.action.HTTPHeaders = []v1.HTTPHeader{{Name: "x-one", Value: "1"}, {Name: "X-One", Value: "2"},
				{Name: "Host", Value: "example.com"}, {Name: "User-Agent", Value: "me"}, {Name: "Accept", Value: ""}}
		}, func(r *http.Request) {
			require.Equal(t, http.Header{"X-One": {"1", "2"}, "User-Agent": {"me"}, "Connection": {"close"}}, r.Header)
			require.Equal(t, "example.com", r.Host)
		}},
		{"a port by name", func(h *httpHook) {
			h.ports = []v1.ContainerPort{{Name: "x", ContainerPort: 1}, {Name: "web", ContainerPort: number}}
			h.action.Port = intstr.FromString("web")
		}, nil},
		{"a port's number as text", func(h *httpHook) { h.action.Port = intstr.FromString(strconv.Itoa(int(number))) }, nil},
		{"a host", func(h *httpHook) { h.action.Host, h.ips = "127.0.0.1", nil }, nil},
		{"the pod's first address", func(h *httpHook) { h.ips = []string{"127.0.0.1", "192.0.2.1"} }, nil},
		{"the host's network", func(h *httpHook) { h.pod.Spec.HostNetwork, h.ips = true, nil },
			func(r *http.Request) { require.Equal(t, server.Listener.Addr().String(), r.Host) }},
		{"the host's network, its address known", func(h *httpHook) {
			h.pod.Spec.HostNetwork, h.pod.Status.HostIP, h.ips = true, "127.0.0.1", nil
		}, nil},
		{"a scheme in small letters", func(h *httpHook) { h.action.Scheme = "http" }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(got.all())
			hook := hookTo(server)
			c.set(hook)
			require.NoError(t, hook.run(t.Context()))
			require.Len(t, got.all(), before+1)
			if c.check != nil {
				c.check(got.all()[before])
			}
			require.Empty(t, hook.events.lines)
		})
	}
}

func TestHTTPHookErrors(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	for _, c := range []struct {
		name string
		set  func(*httpHook)
		want string
	}{
		{"no address", func(h *httpHook) { h.ips = nil }, "httpGet hook: the pod has no IP address"},
		{"no port", func(h *httpHook) { h.action.Port = intstr.IntOrString{} }, `httpGet hook: port "0" is neither a port number nor a port of container c`},
		{"no such name", func(h *httpHook) { h.action.Port = intstr.FromString("web") }, `httpGet hook: port "web" is neither`},
		{"a port too big", func(h *httpHook) { h.action.Port = intstr.FromInt32(65536) }, `httpGet hook: port "65536" is neither`},
		{"nobody listens", func(h *httpHook) { h.action.Port = intstr.FromInt32(portOf(listener)) }, "connection refused"},
	} {
		hook := hookTo(nil)
		hook.action.Port = intstr.FromInt32(1)
		hook.action.Path = "/?token=secret"
		c.set(hook)
		err := hook.run(t.Context())
		require.ErrorContains(t, err, c.want, c.name)
		require.NotContains(t, err.Error(), "secret", c.name)
	}
	hook := hookTo(nil)
	hook.action.Port = intstr.FromInt32(portOf(listener))
	require.ErrorIs(t, hook.run(t.Context()), syscall.ECONNREFUSED)
}

// Errors contain neither the server's response nor the request's query.
func TestHTTPHookErrorsKeepSecrets(t *testing.T) {
	for _, answer := range []string{"secret\r\n\r\n", "HTTP/1.1 secret\r\n\r\n", "HTTP/1.1 200 OK\r\nsecret\r\n\r\n", "",
		"HTTP/1.1 302 Found\r\nLocation: http://[secret\r\n\r\n", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("secret", 20_000) + "\r\n\r\n"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, answer)
		}()
		hook := hookTo(nil)
		hook.action.Port = intstr.FromInt32(portOf(listener))
		hook.action.Path = "/?token=secret"
		err = hook.run(t.Context())
		require.ErrorContains(t, err, "httpGet hook: ")
		require.NotContains(t, err.Error(), "secret")
		require.NoError(t, listener.Close())
	}
}

func TestHTTPSHookTrustsAnyCertificate(t *testing.T) {
	var got asked
	server := httptest.NewTLSServer(got.serve(http.StatusNotFound))
	defer server.Close()
	hook := hookTo(server)
	hook.action.Scheme = v1.URISchemeHTTPS
	hook.action.HTTPHeaders = []v1.HTTPHeader{{Name: "Authorization", Value: "Bearer x"}}
	require.NoError(t, hook.run(t.Context()))
	require.Len(t, got.all(), 1)
	require.Equal(t, "Bearer x", got.all()[0].Header.Get("Authorization"))
	require.Empty(t, hook.events.lines)
}

func TestHTTPSHookFallsBackToHTTPWithoutCredentials(t *testing.T) {
	var got asked
	server := serverOf(t, got.serve(http.StatusOK))
	hook := hookTo(server)
	hook.action.Scheme = v1.URISchemeHTTPS
	hook.action.Path = "/down"
	hook.action.HTTPHeaders = []v1.HTTPHeader{{Name: "authorization", Value: "Bearer x"}, {Name: "X-One", Value: "1"}}
	require.NoError(t, hook.run(t.Context()))
	require.Len(t, got.all(), 1)
	require.Equal(t, "/down", got.all()[0].RequestURI)
	require.Equal(t, "1", got.all()[0].Header.Get("X-One"))
	require.NotContains(t, got.all()[0].Header, "Authorization")
	require.Equal(t, []string{"Warning LifecycleHTTPFallback spec.containers{c}"}, hook.events.lines)
}

func TestHTTPSHookThatFallsBackInVainIsNoEvent(t *testing.T) {
	var calls atomic.Int32
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			if calls.Add(1) == 1 {
				_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
			}
			conn.Close()
		}
	}()
	hook := hookTo(nil)
	hook.action.Port, hook.action.Scheme = intstr.FromInt32(portOf(listener)), v1.URISchemeHTTPS
	require.Error(t, hook.run(t.Context()))
	require.EqualValues(t, 2, calls.Load())
	require.Empty(t, hook.events.lines)
}

// An HTTP hook is never retried.
func TestHTTPHookIsAskedOnce(t *testing.T) {
	var got asked
	server := httptest.NewUnstartedServer(got.serve(http.StatusOK))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	hook := hookTo(server) // http to an https server: it answers 400
	require.NoError(t, hook.run(t.Context()))
	require.Empty(t, got.all())
}

func TestHTTPHookRedirects(t *testing.T) {
	var elsewhere, here asked
	other := serverOf(t, elsewhere.serve(http.StatusOK))
	target := ""
	server := serverOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		here.note(r)
		if r.URL.Path != "/end" {
			http.Redirect(w, r, target, http.StatusFound)
		}
	}))
	for _, c := range []struct {
		name, target string
		here, other  int
		err          string
	}{
		{"to itself", "/end", 2, 0, ""},
		{"to another port of the same host", other.URL + "/end", 1, 1, ""},
		{"to another host", strings.Replace(other.URL, "127.0.0.1", "localhost", 1) + "/end", 1, 0, ""},
		{"in circles", "/again", 10, 0, "httpGet hook: stopped after 10 redirects"},
	} {
		t.Run(c.name, func(t *testing.T) {
			target = c.target
			hereBefore, otherBefore := len(here.all()), len(elsewhere.all())
			err := hookTo(server).run(t.Context())
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, c.err)
			}
			require.Len(t, here.all(), hereBefore+c.here)
			require.Len(t, elsewhere.all(), otherBefore+c.other)
		})
	}
}

func TestHTTPSHookRedirectedToHTTPLeavesItsCredentials(t *testing.T) {
	var plain asked
	other := serverOf(t, plain.serve(http.StatusOK))
	server := httptest.NewTLSServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer server.Close()
	hook := hookTo(server)
	hook.action.Scheme = v1.URISchemeHTTPS
	hook.action.HTTPHeaders = []v1.HTTPHeader{{Name: "Authorization", Value: "Bearer x"}}
	require.NoError(t, hook.run(t.Context()))
	require.Len(t, plain.all(), 1)
	require.NotContains(t, plain.all()[0].Header, "Authorization", "what was meant for https is not sent in the clear")
}

func TestHTTPHookEndsWithItsContext(t *testing.T) {
	left := make(chan struct{})
	server := serverOf(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done() // the client has hung up
		close(left)
	}))
	why := fmt.Errorf("the pod was deleted")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
	hook := hookTo(server)
	hook.action.Path = "/?token=secret"
	err := hook.run(ctx)
	require.ErrorIs(t, err, why)
	require.NotContains(t, err.Error(), "secret")
	<-left
}

// An endless body is not read to its end, and its connection is closed.
func TestHTTPHookReadsLittle(t *testing.T) {
	left := make(chan int)
	server := serverOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n, block := 0, make([]byte, 1<<20)
		for {
			written, err := w.Write(block)
			if n += written; err != nil {
				left <- n
				return
			}
		}
	}))
	require.NoError(t, hookTo(server).run(t.Context()))
	require.Less(t, <-left, 64<<20)
}

func TestHTTPHookWithoutEventsOrContainer(t *testing.T) {
	server := serverOf(t, (&asked{}).serve(http.StatusOK))
	hook := hookTo(server)
	hook.action.Scheme = v1.URISchemeHTTPS
	pod := newPod()
	call := runtime.HookCall{
		Pod: pod, Container: &pod.Spec.Containers[0], PodIPs: hook.ips, Handler: &v1.LifecycleHandler{HTTPGet: &hook.action},
	}
	require.NoError(t, runtime.NewHooks(nil, nil).RunHook(t.Context(), call))
	call.Container = &v1.Container{Name: "unknown"}
	require.NoError(t, runtime.NewHooks(nil, noEvents{t}).RunHook(t.Context(), call))
}

type noEvents struct{ *testing.T }

func (n noEvents) Event(apiruntime.Object, string, string, string) {
	n.Error("an event for a container that is not in the pod")
}
