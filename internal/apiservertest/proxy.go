// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"crypto/x509"
	"testing"

	"github.com/keelson-dev/keelson/internal/apiproxy"
)

// Proxy starts a fault-injection proxy in front of the server. The proxy is closed at the end of
// the test. The proxy has the server's certificate, so a client needs to change only the Host of
// its configuration:
//
//	config := server.Config()
//	config.Host = server.Proxy(t).URL
func (s *Server) Proxy(t testing.TB) *apiproxy.Proxy {
	t.Helper()
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(s.identity.certPEM)
	p, err := apiproxy.New(apiproxy.Options{Target: s.URL, Authorities: authorities, Certificate: &s.identity.tls})
	if err != nil {
		t.Fatalf("start a proxy for the API server: %v", err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close the proxy for the API server: %v", err)
		}
	})
	return p
}
