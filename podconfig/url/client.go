// SPDX-License-Identifier: Apache-2.0

package url

import (
	"errors"
	"net/http"
	"time"
)

// maxRedirects equals net/http's limit.
const maxRedirects = 10

// newClient returns the default client. No other client uses the transport, so that the connections
// end with the source.
func newClient(header http.Header) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			ForceAttemptHTTP2:   true,
			MaxIdleConns:        1,
			IdleConnTimeout:     90 * time.Second,
			TLSHandshakeTimeout: 10 * time.Second,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error { return checkRedirect(req, via, header) },
	}
}

// checkRedirect removes headers intended for the first host from redirects to other hosts. net/http
// keeps all but a few known headers, and sends the query in the Referer.
func checkRedirect(req *http.Request, via []*http.Request, header http.Header) error {
	first := via[0]
	if len(via) >= maxRedirects {
		return errors.New("stopped after 10 redirects")
	}
	if first.URL.Scheme == "https" && req.URL.Scheme != "https" {
		return errors.New("refused a redirect from https to http")
	}
	if req.URL.Host != first.URL.Host {
		for name := range header {
			req.Header.Del(name)
		}
		req.Header.Del("Referer")
	}
	return nil
}
