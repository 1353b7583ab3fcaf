// SPDX-License-Identifier: Apache-2.0

package url

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// settled is the minimum age of a resource at its answer for its validators to be trusted. Servers
// derive validators from the time of the last change in seconds, and may change the resource again
// within the second.
const settled = 2 * time.Second

// validators identify a state of the resource for the server.
type validators struct{ etag, lastModified string }

// answer is a complete answer of the server.
type answer struct {
	// unchanged: the resource is still in the state of the request's validators.
	unchanged  bool
	data       []byte
	validators validators
}

// fetch sends a request and reads the complete answer.
func (s *Source) fetch(ctx context.Context, known validators) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return answer{}, transportError(err)
	}
	req.Header = s.header.Clone()
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	if known.etag != "" {
		req.Header.Set("If-None-Match", known.etag)
	}
	if known.lastModified != "" {
		req.Header.Set("If-Modified-Since", known.lastModified)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{}, transportError(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && known != validators{}:
		return answer{unchanged: true}, nil
	case resp.StatusCode != http.StatusOK:
		return answer{}, &StatusError{Code: resp.StatusCode, RetryAfter: retryAfter(resp, time.Now())}
	}
	data, err := read(resp, s.limit)
	if err != nil {
		return answer{}, err
	}
	return answer{data: data, validators: validatorsOf(resp.Header)}, nil
}

// read reads a body of less than limit bytes.
func read(resp *http.Response, limit int64) ([]byte, error) {
	if resp.ContentLength >= limit {
		return nil, manifest.TooLarge(limit)
	}
	var buf bytes.Buffer
	buf.Grow(int(max(resp.ContentLength, 0)) + bytes.MinRead)
	n, err := io.Copy(&buf, io.LimitReader(resp.Body, limit))
	switch {
	case err != nil:
		return nil, transportError(err)
	case n >= limit:
		return nil, manifest.TooLarge(limit)
	case n == 0 && endsWithConnection(resp):
		return nil, &TransportError{kind: "cut", text: "the connection ended before the body, or the body is empty without saying so"}
	}
	return buf.Bytes(), nil
}

// endsWithConnection reports whether only the end of the connection marks the end of the body. An
// empty body is then indistinguishable from a server crash, which would end all pods.
func endsWithConnection(resp *http.Response) bool {
	return resp.ProtoMajor < 2 && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 && !resp.Uncompressed
}

// validatorsOf returns no validators if the resource has changed too recently.
func validatorsOf(h http.Header) validators {
	v := validators{etag: h.Get("ETag"), lastModified: h.Get("Last-Modified")}
	if v.lastModified == "" {
		return v
	}
	changed, err := http.ParseTime(v.lastModified)
	if err != nil {
		return validators{etag: v.etag}
	}
	sent, err := http.ParseTime(h.Get("Date"))
	if err != nil || sent.Sub(changed) < settled {
		return validators{}
	}
	return v
}

// retryAfter returns the wait requested by the server, 0 if absent.
func retryAfter(resp *http.Response, now time.Time) time.Duration {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	text := resp.Header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// StatusError is an answer other than 200, or 304 to a conditional request.
type StatusError struct {
	// Code is the HTTP status.
	Code int
	// RetryAfter is the wait requested by a busy server (429, 503); 0 if absent.
	RetryAfter time.Duration
}

func (e *StatusError) Error() string {
	if text := http.StatusText(e.Code); text != "" {
		return fmt.Sprintf("the server answered %d %s", e.Code, text)
	}
	return fmt.Sprintf("the server answered %d", e.Code)
}
