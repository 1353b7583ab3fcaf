// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
)

// serveTLS serves a guarded handler that answers with the user's attributes.
func serveTLS(t *testing.T, a authority, roots func() *x509.CertPool, authorizer nodeserver.Authorizer) *httptest.Server {
	t.Helper()
	own := a.pair(same)
	config, err := nodeserver.NewTLSConfig(nodeserver.TLSOptions{
		Certificate:       func() (*tls.Certificate, error) { return &own, nil },
		ClientAuthorities: roots,
	})
	require.NoError(t, err)
	guard, err := nodeserver.NewGuard(nodeserver.GuardOptions{
		Node: "n", Authorizer: authorizer, Authenticators: []nodeserver.Authenticator{nodeserver.Certificates(roots)},
	})
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("inside")) })))
	server.Config.ErrorLog = quiet()
	server.TLS = config
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// client returns a client with a certificate, or without any.
func client(t *testing.T, a authority, pairs ...tls.Certificate) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.pool(), Certificates: pairs}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func fetch(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()
	answer, err := c.Get(url)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(body)
}

func TestClientCertificates(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	var seen nodeserver.User
	server := serveTLS(t, a, a.pool, rules{"pods": func(asked nodeserver.Attributes) { seen = asked.User }})
	intermediate := authority{T: t}
	intermediate.cert, intermediate.key = a.sign(func(c *x509.Certificate) {
		c.Subject.CommonName, c.IsCA, c.KeyUsage = "between", true, x509.KeyUsageCertSign
	})
	chained := intermediate.pair(same)
	chained.Certificate = append(chained.Certificate, intermediate.cert.Raw)
	uid := func(values ...any) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			for _, v := range values {
				c.Subject.ExtraNames = append(c.Subject.ExtraNames, pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}, Value: v})
			}
		}
	}
	for _, tc := range []struct {
		name string
		pair tls.Certificate
		code int
		uid  string
	}{
		{name: "good", pair: a.pair(same), code: 200},
		{name: "through an intermediate", pair: chained, code: 200},
		{name: "without the intermediate", pair: intermediate.pair(same), code: 401},
		{name: "of another authority", pair: stranger.pair(same), code: 401},
		{name: "self-signed", pair: authority{T: t}.pair(same), code: 401},
		{name: "expired", pair: a.pair(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) }), code: 401},
		{name: "not valid yet", pair: a.pair(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }), code: 401},
		{name: "for servers", pair: a.pair(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), code: 401},
		{name: "without a name", pair: a.pair(func(c *x509.Certificate) { c.Subject.CommonName = "" }), code: 401},
		{name: "with a UID", pair: a.pair(uid("42")), code: 200, uid: "42"},
		{name: "with two UIDs", pair: a.pair(uid("42", "43")), code: 401},
		{name: "with an empty UID", pair: a.pair(uid("")), code: 401},
	} {
		t.Run(tc.name, func(t *testing.T) {
			seen = nodeserver.User{}
			// A client with GetClientCertificate sends a certificate of any authority.
			c := client(t, a)
			c.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tc.pair, nil }
			code, body := fetch(t, c, server.URL+"/pods")
			assert.Equal(t, tc.code, code, body)
			if tc.code != http.StatusOK {
				assert.Equal(t, "Unauthorized", body)
				return
			}
			sum := sha256.Sum256(tc.pair.Certificate[0])
			assert.Equal(t, nodeserver.User{
				Name: "alice", UID: tc.uid, Groups: []string{"staff", "admins", "system:authenticated"},
				Extra: map[string][]string{"authentication.kubernetes.io/credential-id": {"X509SHA256=" + hex.EncodeToString(sum[:])}},
			}, seen)
		})
	}
	code, _ := fetch(t, client(t, a), server.URL+"/pods")
	assert.Equal(t, http.StatusUnauthorized, code, "a client without a certificate may connect, and is refused")
}

// TestClientAuthoritiesAreReloaded: a file with other authorities takes effect at once, also on
// connections that are open.
func TestClientAuthoritiesAreReloaded(t *testing.T) {
	old, next := newAuthority(t), newAuthority(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	write := func(data []byte) {
		require.NoError(t, os.WriteFile(file+".new", data, 0o600))
		require.NoError(t, os.Rename(file+".new", file))
	}
	write(certPEM(old.cert))
	roots, err := nodeserver.Authorities(file, nil)
	require.NoError(t, err)
	server := serveTLS(t, old, roots, nodeserver.AlwaysAllow{})
	ofOld, ofNext := client(t, old, old.pair(same)), client(t, old, next.pair(same))
	check := func(c *http.Client, want int) {
		t.Helper()
		code, _ := fetch(t, c, server.URL+"/pods")
		assert.Equal(t, want, code)
	}
	check(ofOld, 200)
	check(ofNext, 401)
	write(append(certPEM(old.cert), certPEM(next.cert)...))
	ofNext.CloseIdleConnections() // the client had not sent its certificate to the old authority
	check(ofOld, 200)
	check(ofNext, 200)
	write([]byte("no certificate"))
	check(ofOld, 200)
	check(ofNext, 200)
	require.NoError(t, os.Remove(file))
	check(ofOld, 200)
	write(certPEM(next.cert))
	check(ofOld, 401)
	check(ofNext, 200)

	_, err = nodeserver.Authorities(file+".missing", nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	write([]byte(strings.Repeat("x", 100)))
	_, err = nodeserver.Authorities(file, nil)
	require.ErrorContains(t, err, "no certificate")
	_, err = nodeserver.Authorities(t.TempDir(), nil)
	require.ErrorContains(t, err, "regular file")
}
