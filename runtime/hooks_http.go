// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Limits of httpGet hooks. The first two are the kubelet's.
const (
	hookDialTime     = 30 * time.Second
	hookRedirects    = 10
	hookDrainBytes   = 10 << 10 // of the response body, so that the server can finish
	hookDrainTime    = 5 * time.Second
	hookHeaderBytes  = 64 << 10
	hookTLSHandshake = 10 * time.Second
)

// hookUserAgent begins with the kubelet's word, which servers may check.
const hookUserAgent = "kube-lifecycle/1.36 (keelson)"

var errHookRedirects = fmt.Errorf("stopped after %d redirects", hookRedirects)

// newHookClient returns a client that accepts any certificate, uses no proxy and keeps no
// connection.
func newHookClient(dial func(context.Context, string, string) (net.Conn, error)) *http.Client {
	return &http.Client{
		CheckRedirect: checkHookRedirect,
		Transport: &http.Transport{
			DialContext:            dial,
			TLSClientConfig:        &tls.Config{InsecureSkipVerify: true},
			TLSHandshakeTimeout:    hookTLSHandshake,
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: hookHeaderBytes,
		},
	}
}

// checkHookRedirect follows redirects to the same host only. A redirect to another host is a
// response, and so a success of the hook.
func checkHookRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case req.URL.Hostname() != via[0].URL.Hostname():
		return http.ErrUseLastResponse
	case len(via) >= hookRedirects:
		return errHookRedirects
	case req.URL.Scheme != via[0].URL.Scheme:
		req.Header.Del("Authorization") // net/http compares the host only
	}
	return nil
}

// httpGet makes a single request. Every response is a success, with any status. If the server does
// not speak https, httpGet repeats the request over http without credentials.
func (h *hooks) httpGet(ctx context.Context, call HookCall) error {
	req, err := hookRequest(ctx, call)
	if err != nil {
		return fmt.Errorf("httpGet hook: %w", err)
	}
	err = h.ask(ctx, req)
	if req.URL.Scheme == "https" && errors.Is(err, http.ErrSchemeMismatch) {
		req = req.Clone(ctx)
		req.URL.Scheme = "http"
		req.Header.Del("Authorization")
		if err = h.ask(ctx, req); err == nil {
			h.noteFallback(call, req.URL.Host)
		}
	}
	if err != nil {
		return fmt.Errorf("httpGet hook: %w", withoutAnswer(ctx, err))
	}
	return nil
}

func (h *hooks) ask(ctx context.Context, req *http.Request) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := h.client.Do(req.WithContext(ctx))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// The response has arrived. A slow body is read for a limited time only.
	timer := time.AfterFunc(hookDrainTime, cancel)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, resp.Body, hookDrainBytes)
	return nil
}

func (h *hooks) noteFallback(call HookCall, server string) {
	object := containerReference(call.Pod, call.Container.Name)
	if h.events == nil || object == nil {
		return
	}
	h.events.Event(object, v1.EventTypeWarning, eventLifecycleHTTPFallback,
		fmt.Sprintf("HTTPS lifecycle hook at %s was answered over HTTP; asked again over HTTP, which succeeded", server))
}

// withoutAnswer returns err without texts from the server and without the query of the URL.
// net/http quotes both.
func withoutAnswer(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op // addresses and system errors only
	}
	switch {
	case errors.Is(err, errHookRedirects):
		return errHookRedirects
	case errors.Is(err, http.ErrSchemeMismatch):
		return http.ErrSchemeMismatch
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the connection was closed without an answer")
	default:
		return errors.New("no valid answer")
	}
}

func hookRequest(ctx context.Context, call HookCall) (*http.Request, error) {
	action := call.Handler.HTTPGet
	host, err := hookHost(call)
	if err != nil {
		return nil, err
	}
	port, err := hookPort(action.Port, call.Container)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://host/", nil)
	if err != nil {
		return nil, err
	}
	target := hookPath(action.Path)
	target.Scheme = strings.ToLower(cmp.Or(string(action.Scheme), "http"))
	target.Host = net.JoinHostPort(host, strconv.Itoa(port))
	req.URL, req.Host = target, target.Host
	setHookHeaders(req, action.HTTPHeaders)
	return req, nil
}

// hookHost returns the host of the pod. A sandbox on the host's network often has no address of its
// own.
func hookHost(call HookCall) (string, error) {
	switch host := call.Handler.HTTPGet.Host; {
	case host != "":
		return host, nil
	case len(call.PodIPs) > 0 && call.PodIPs[0] != "":
		return call.PodIPs[0], nil
	case call.Pod.Spec.HostNetwork:
		return cmp.Or(call.Pod.Status.HostIP, "127.0.0.1"), nil
	default:
		return "", errors.New("the pod has no IP address")
	}
}

// hookPort resolves a port: a number, a name in the container's ports, or a number in text form.
func hookPort(port intstr.IntOrString, c *v1.Container) (int, error) {
	number := port.IntValue() // 0 for a name
	if port.Type == intstr.String {
		for i := range c.Ports {
			if c.Ports[i].Name == port.StrVal {
				number = int(c.Ports[i].ContainerPort)
				break
			}
		}
	}
	if number < 1 || number > 65535 {
		return 0, fmt.Errorf("port %q is neither a port number nor a port of container %s", port.String(), c.Name)
	}
	return number, nil
}

// hookPath parses a path with an optional query. An invalid path is used unchanged.
func hookPath(path string) *url.URL {
	path, _, _ = strings.Cut(path, "#")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	// Parse as in a request line, so that //name is not a host.
	target, err := url.ParseRequestURI(path)
	if err != nil {
		return &url.URL{Path: path}
	}
	return target
}

// setHookHeaders sets the handler's headers. With an empty User-Agent or Accept, the header is not
// sent.
func setHookHeaders(req *http.Request, headers []v1.HTTPHeader) {
	for _, header := range headers {
		req.Header.Add(header.Name, header.Value)
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host // net/http ignores Host in the headers
	}
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header.Set("User-Agent", hookUserAgent)
	}
	switch accept, ok := req.Header["Accept"]; {
	case !ok:
		req.Header.Set("Accept", "*/*")
	case strings.Join(accept, "") == "":
		req.Header.Del("Accept")
	}
}
