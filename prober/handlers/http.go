// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/httpaction"
	"github.com/keelson-dev/keelson/prober"
)

// Bounds of a request. The first is the kubelet's.
const (
	handshakeTime   = 10 * time.Second
	maxHeaderBytes  = 1 << 20
	protocolOfHTTP2 = "h2"
)

// httpGet makes one request and judges its status. An error before the end of the body counts as a
// failure of the server.
func (h *Handler) httpGet(ctx context.Context, t prober.Target, action *v1.HTTPGetAction) (prober.Outcome, error) {
	req, err := request(ctx, t, action)
	if err != nil {
		return prober.Outcome{}, err
	}
	l := &lines{connect: h.dialOf(t, action.Host)}
	defer l.close()
	client := &http.Client{Transport: transport(ctx, l, action), CheckRedirect: httpaction.CheckRedirect}
	resp, err := client.Do(req)
	if err != nil {
		return failure(ctx, "Get %q: %s", shown(req.URL), reason(ctx, err))
	}
	defer resp.Body.Close()
	return judge(ctx, req, resp)
}

// judge reads as much of the body as will be shown.
func judge(ctx context.Context, req *http.Request, resp *http.Response) (prober.Outcome, error) {
	if resp.StatusCode < 200 || resp.StatusCode >= 400 {
		// The body is not shown, because an error page may contain confidential data.
		return failure(ctx, "HTTP probe failed with statuscode: %d", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, prober.MaxOutput))
	if err != nil {
		return failure(ctx, "Get %q: reading the body: %s", shown(req.URL), reason(ctx, err))
	}
	if resp.StatusCode < 300 {
		return prober.Outcome{Verdict: prober.VerdictSuccess, Output: prober.LimitOutput(string(body))}, nil
	}
	output := prober.LimitOutput("Probe terminated redirects, Response body: " + string(body))
	return prober.Outcome{Verdict: prober.VerdictWarning, Output: output}, nil
}

// request makes the HTTP request of action.
func request(ctx context.Context, t prober.Target, action *v1.HTTPGetAction) (*http.Request, error) {
	address, err := addressOf(t, action.Host, action.Port)
	if err != nil {
		return nil, err
	}
	return httpaction.Request(ctx, action, address, userAgent)
}

// transport returns the transport of one attempt: it trusts any certificate, uses no proxy and
// keeps no connection alive.
func transport(ctx context.Context, l *lines, action *v1.HTTPGetAction) *http.Transport {
	protocols := new(http.Protocols)
	if action.Protocol != nil && *action.Protocol == v1.HTTPProtocolHTTP2 && action.Scheme != v1.URISchemeHTTPS {
		protocols.SetUnencryptedHTTP2(true)
		l.hurry()
	} else {
		protocols.SetHTTP1(true)
		protocols.SetHTTP2(true)
	}
	return &http.Transport{
		Protocols: protocols,
		// Use the attempt's ctx: net/http continues an abandoned dial for the next request, and an
		// attempt has no next request.
		DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			return l.dial(ctx, network, address)
		},
		TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, // as the kubelet: a probe asks for health, not for identity
			VerifyConnection: func(s tls.ConnectionState) error {
				if s.NegotiatedProtocol == protocolOfHTTP2 {
					l.hurry()
				}
				return nil
			},
		},
		TLSHandshakeTimeout:    handshakeTime,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// shown returns the URL without its query.
func shown(u *url.URL) string {
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return bare.String()
}

// reason returns the text of a transport error without the server's data quoted by net/http.
func reason(ctx context.Context, err error) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.DeadlineExceeded.Error()
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return unquoted(err.Error())
}

// unquoted returns s without the text between quotation marks.
func unquoted(s string) string {
	before, quoted, found := strings.Cut(s, `"`)
	if !found {
		return s
	}
	after := ""
	if i := strings.LastIndexByte(quoted, '"'); i >= 0 {
		after = quoted[i+1:]
	}
	return strings.TrimSpace(before) + after
}
