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
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/httpaction"
)

// Limits of httpGet hooks. The first is the kubelet's.
const (
	hookDialTime     = 30 * time.Second
	hookDrainBytes   = 10 << 10 // of the response body, so that the server can finish
	hookDrainTime    = 5 * time.Second
	hookHeaderBytes  = 64 << 10
	hookTLSHandshake = 10 * time.Second
)

// hookUserAgent begins with the kubelet's word, which servers may check.
const hookUserAgent = "kube-lifecycle/1.36 (keelson)"

// newHookClient returns a client that accepts any certificate, uses no proxy and keeps no
// connection.
func newHookClient(dial func(context.Context, string, string) (net.Conn, error)) *http.Client {
	return &http.Client{
		CheckRedirect: httpaction.CheckRedirect,
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

// httpGet makes a single request. Every response is a success, with any status. If the server does
// not speak https, httpGet repeats the request over http without credentials.
func (h *hooks) httpGet(ctx context.Context, call HookCall) error {
	req, err := hookRequest(ctx, call)
	if err != nil {
		return fmt.Errorf("httpGet hook: %w", err)
	}
	client := h.clientOf(call)
	err = ask(ctx, client, req)
	if req.URL.Scheme == "https" && errors.Is(err, http.ErrSchemeMismatch) {
		req = req.Clone(ctx)
		req.URL.Scheme = "http"
		req.Header.Del("Authorization")
		if err = ask(ctx, client, req); err == nil {
			h.noteFallback(call, req.URL.Host)
		}
	}
	if err != nil {
		return fmt.Errorf("httpGet hook: %w", withoutAnswer(ctx, err))
	}
	return nil
}

// clientOf returns the client for a hook. The pod of a hook without a host is reached from its network.
func (h *hooks) clientOf(call HookCall) *http.Client {
	if h.dialer == nil || call.Handler.HTTPGet.Host != "" {
		return h.client
	}
	return newHookClient(func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, hookDialTime)
		defer cancel()
		return h.dialer.DialPod(ctx, call.Pod.UID, network, address)
	})
}

func ask(ctx context.Context, client *http.Client, req *http.Request) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := client.Do(req.WithContext(ctx))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// The response has arrived. A slow body is read for a limited time only.
	time.AfterFunc(hookDrainTime, cancel)
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
	case errors.Is(err, httpaction.ErrRedirects):
		return httpaction.ErrRedirects
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
	address, err := httpaction.Address(host, action.Port, call.Container)
	if err != nil {
		return nil, err
	}
	return httpaction.Request(ctx, action, address, hookUserAgent)
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
