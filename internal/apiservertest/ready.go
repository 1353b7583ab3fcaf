// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// newHTTPClient returns a client that trusts id.
func newHTTPClient(id identity) *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(id.certPEM)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		// A new connection must not reach a killed server through an old connection.
		DisableKeepAlives: true,
	}}
}

// WaitReady returns when the server is ready and has its default namespace, or an error with the
// reason when ctx ends.
func (s *Server) WaitReady(ctx context.Context) error { return s.waitReady(ctx) }

// waitReady is WaitReady, but also returns when one of exited is closed.
func (s *Server) waitReady(ctx context.Context, exited ...<-chan struct{}) error {
	// The server has no event to wait for from outside.
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := errors.Join(s.get(ctx, "/readyz"), s.get(ctx, "/api/v1/namespaces/default"))
		if err == nil {
			return nil
		}
		for _, e := range exited {
			select {
			case <-e:
				return fmt.Errorf("a process has ended: %w", err)
			default:
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

// get requests path from kube-apiserver and returns an error unless the status is 200.
func (s *Server) get(ctx context.Context, path string) error {
	// If the server does not answer, the next request may succeed.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	_, err = s.do(req)
	return err
}

// do returns the body of the answer to req, or an error unless the status is 200.
func (s *Server) do(req *http.Request) ([]byte, error) {
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s: %s: %s", req.Method, req.URL.Path, resp.Status, bytes.TrimSpace(body))
	}
	return body, nil
}
