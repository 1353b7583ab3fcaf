// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// request is a certificate signing request and its key, in PEM format.
type request struct{ csr, key []byte }

const (
	csrBlock = "CERTIFICATE REQUEST"
	keyBlock = "PRIVATE KEY"
)

// newRequest returns a request with a new key.
func newRequest(want Template) (request, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return request{}, err
	}
	asked := &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: want.CommonName, Organization: []string{want.Organization}},
		DNSNames: want.DNSNames,
	}
	for _, ip := range want.IPs {
		asked.IPAddresses = append(asked.IPAddresses, net.ParseIP(ip))
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, asked, private)
	if err != nil {
		return request{}, fmt.Errorf("make the certificate signing request: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return request{}, err
	}
	return request{
		csr: pem.EncodeToMemory(&pem.Block{Type: csrBlock, Bytes: der}),
		key: pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: keyDER}),
	}, nil
}

// asksFor reports whether the request is well-formed and asks for the wanted certificate.
func (r request) asksFor(want Template) bool {
	block, _ := pem.Decode(r.csr)
	key, _ := pem.Decode(r.key)
	if block == nil || key == nil {
		return false
	}
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return false
	}
	private, err := x509.ParsePKCS8PrivateKey(key.Bytes)
	if err != nil {
		return false
	}
	signer, ok := private.(crypto.Signer)
	if public, comparable := asked.PublicKey.(*ecdsa.PublicKey); !ok || !comparable || !public.Equal(signer.Public()) {
		return false
	}
	has := Template{CommonName: asked.Subject.CommonName, DNSNames: asked.DNSNames}
	if len(asked.Subject.Organization) == 1 {
		has.Organization = asked.Subject.Organization[0]
	}
	for _, ip := range asked.IPAddresses {
		has.IPs = append(has.IPs, ip.String())
	}
	return has.equal(want)
}

// object returns the object to create. Its name depends on the request only, so that a repeated
// creation makes no second object.
func (r request) object(signer string) *certificatesv1.CertificateSigningRequest {
	purpose := certificatesv1.UsageClientAuth
	if signer == certificatesv1.KubeletServingSignerName {
		purpose = certificatesv1.UsageServerAuth
	}
	sum := sha256.Sum256(r.csr)
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-" + hex.EncodeToString(sum[:10])},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    r.csr,
			SignerName: signer,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, purpose},
		},
	}
}

// pair returns the certificate that was issued for the request. It checks the key, the content and
// the validity, because the API server is not trusted.
func (r request) pair(chain []byte, want Template, now time.Time) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(chain, r.key)
	if err != nil {
		return nil, fmt.Errorf("issued certificate: %w", err)
	}
	if missing := want.Missing(pair.Leaf); missing != "" {
		return nil, fmt.Errorf("issued certificate: it has no %s", missing)
	}
	if !now.Before(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("issued certificate: it has expired at %s", pair.Leaf.NotAfter.Format(time.RFC3339))
	}
	return &pair, nil
}

// encode returns the request as the content of a file.
func (r request) encode() []byte { return append(bytes.Clone(r.csr), r.key...) }

var errNoRequest = errors.New("the file has no certificate signing request with a key")

// decodeRequest is the opposite of encode.
func decodeRequest(data []byte) (request, error) {
	csr, rest := pem.Decode(data)
	if csr == nil || csr.Type != csrBlock {
		return request{}, errNoRequest
	}
	key, _ := pem.Decode(rest)
	if key == nil || key.Type != keyBlock {
		return request{}, errNoRequest
	}
	return request{pem.EncodeToMemory(csr), pem.EncodeToMemory(key)}, nil
}
