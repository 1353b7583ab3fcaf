// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// authority is a certificate authority of a test.
type authority struct {
	*testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	a := authority{T: t}
	a.cert, a.key = a.sign(func(c *x509.Certificate) {
		c.Subject.CommonName, c.IsCA, c.KeyUsage = "authority", true, x509.KeyUsageCertSign
	})
	return a
}

// sign returns a new certificate. An authority without a certificate signs itself.
func (a authority) sign(change func(*x509.Certificate)) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a, err)
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "alice", Organization: []string{"staff", "admins"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		BasicConstraintsValid: true,
	}
	change(template)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(a, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(a, err)
	return cert, key
}

// pair returns a certificate for a TLS connection.
func (a authority) pair(change func(*x509.Certificate)) tls.Certificate {
	a.Helper()
	cert, key := a.sign(change)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// pems returns a certificate and its key as the contents of files.
func (a authority) pems(name string) (cert, key []byte) {
	a.Helper()
	c, k := a.sign(func(c *x509.Certificate) { c.Subject.CommonName = name })
	der, err := x509.MarshalPKCS8PrivateKey(k)
	require.NoError(a, err)
	return certPEM(c), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func (a authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func certPEM(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func same(*x509.Certificate) {}
