// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"
)

// signer is a certificate authority of a test.
type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	life time.Duration
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(100 * 365 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &signer{cert, key, life}
}

// sign issues a certificate for a request in PEM format.
func (s *signer) sign(csr []byte) ([]byte, error) {
	block, _ := pem.Decode(csr)
	if block == nil {
		return nil, errors.New("no PEM")
	}
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	if err := asked.CheckSignature(); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject: asked.Subject, DNSNames: asked.DNSNames, IPAddresses: asked.IPAddresses,
		NotBefore: time.Now(), NotAfter: time.Now().Add(s.life), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, s.cert, asked.PublicKey, s.key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

// issue returns a certificate for a template, with its key.
func (s *signer) issue(t *testing.T, want Template) issue {
	t.Helper()
	r, err := newRequest(want)
	require.NoError(t, err)
	chain, err := s.sign(r.csr)
	require.NoError(t, err)
	return issue{chain, r.key}
}

// cluster is a Requester with objects in memory. It emulates neither permissions nor watches.
type cluster struct {
	*signer
	mu      sync.Mutex
	objects map[string]*certificatesv1.CertificateSigningRequest
	created int // objects
	calls   int // of Create
	changed chan struct{}

	decide func(n int, r *certificatesv1.CertificateSigningRequest) ([]byte, error) // n counts objects from 1; nil, nil: later
	create func(call int) error
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{signer: newSigner(t), objects: map[string]*certificatesv1.CertificateSigningRequest{}, changed: make(chan struct{})}
	c.decide = func(_ int, r *certificatesv1.CertificateSigningRequest) ([]byte, error) {
		return c.sign(r.Spec.Request)
	}
	c.create = func(int) error { return nil }
	return c
}

func (c *cluster) Create(_ context.Context, r *certificatesv1.CertificateSigningRequest) (types.UID, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if err := c.create(c.calls); err != nil {
		return "", err
	}
	if c.objects[r.Name] == nil {
		c.created++
		c.objects[r.Name] = r
	}
	return types.UID("uid of " + r.Name), nil
}

func (c *cluster) Wait(ctx context.Context, name string, _ types.UID) ([]byte, error) {
	for {
		c.mu.Lock()
		object, changed := c.objects[name], c.changed
		if object == nil {
			c.mu.Unlock()
			return nil, ErrGone
		}
		chain, err := c.decide(c.created, object)
		c.mu.Unlock()
		if chain != nil || err != nil {
			return chain, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// do changes the cluster, and lets Wait look again.
func (c *cluster) do(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *cluster) counts() (created, calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.created, c.calls
}

func (c *cluster) requester(*tls.Certificate, error) (Requester, error) { return c, nil }
