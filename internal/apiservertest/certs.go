// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// identity is a key with a self-signed certificate for 127.0.0.1 and for the names of the service
// kubernetes. The server uses the certificate for its clients, and as a client of nodes.
type identity struct {
	certPEM, keyPEM []byte
	tls             tls.Certificate
}

// newIdentity returns an identity that is valid for a day, also for the given addresses.
func newIdentity(addresses ...net.IP) (identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return identity{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: "keelson-test", Organization: []string{"system:masters"}},
		NotBefore:    now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:           append([]net.IP{net.IPv4(127, 0, 0, 1)}, addresses...),
		DNSNames:              []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return identity{}, err
	}
	der, err := x509.MarshalECPrivateKey(key) // kube-apiserver reads only the EC format
	if err != nil {
		return identity{}, err
	}
	id := identity{
		certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		keyPEM:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
	}
	id.tls, err = tls.X509KeyPair(id.certPEM, id.keyPEM)
	return id, err
}
