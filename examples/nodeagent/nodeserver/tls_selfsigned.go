// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

const (
	// selfSignedLife is the validity of a self-signed certificate. After 80 % of this time the
	// certificate is replaced.
	selfSignedLife = 365 * 24 * time.Hour
	// addressesHold is how long the node's addresses are believed without asking again.
	addressesHold = time.Minute
)

// SelfSignedOptions configure SelfSigned.
type SelfSignedOptions struct {
	// Dir is the folder of kubelet.crt and kubelet.key. Required. It is created if missing.
	Dir string
	// Host is the name of the node. Required.
	Host string
	// IPs returns the addresses of the node. Required.
	IPs func() []net.IP
	// Logger receives a warning if a new certificate cannot be stored. Defaults to none.
	Logger *zap.Logger
}

// SelfSigned returns a certificate of its own making, for TLSOptions.Certificate. The certificate is
// valid for the node's name and addresses, for a year. It is replaced in the first handshake after
// 80 % of its life, and in the first handshake a minute after an address was added. If it cannot be
// stored, it is kept in memory.
func SelfSigned(opts SelfSignedOptions) (func() (*tls.Certificate, error), error) {
	switch {
	case opts.Dir == "" || opts.Host == "" || opts.IPs == nil:
		return nil, errors.New("nodeserver: SelfSignedOptions.Dir, Host and IPs are required")
	case opts.Logger == nil:
		opts.Logger = zap.NewNop()
	}
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("folder of certificates: %w", err)
	}
	s := &selfSigned{SelfSignedOptions: opts}
	if pair, err := tls.LoadX509KeyPair(s.path("crt"), s.path("key")); err == nil {
		s.mu.pair = &pair
	}
	return s.current, nil
}

type selfSigned struct {
	SelfSignedOptions

	mu struct {
		sync.Mutex
		pair   *tls.Certificate // nil: none yet
		looked time.Time        // at the addresses
	}
}

func (s *selfSigned) path(extension string) string {
	return filepath.Join(s.Dir, "kubelet."+extension)
}

// current returns the certificate, after replacing it if that is due.
func (s *selfSigned) current() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.mu.pair != nil && now.Before(s.mu.looked.Add(addressesHold)) && isFresh(s.mu.pair.Leaf, now) {
		return s.mu.pair, nil
	}
	ips := s.IPs()
	s.mu.looked = now
	want := s.template(ips, now)
	if s.mu.pair != nil && isFresh(s.mu.pair.Leaf, now) && isFor(s.mu.pair.Leaf, want) {
		return s.mu.pair, nil
	}
	cert, key, err := signSelf(want)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	s.mu.pair = &pair
	// After a crash between the two writes the files do not fit each other, and are made anew.
	if err := errors.Join(atomicfile.WritePath(s.path("key"), key), atomicfile.WritePath(s.path("crt"), cert)); err != nil {
		s.Logger.Warn("cannot store the self-signed certificate of the server; a restart makes another one", zap.Error(err))
	}
	return s.mu.pair, nil
}

// isFresh reports whether less than 80 % of a certificate's life have passed.
func isFresh(leaf *x509.Certificate, now time.Time) bool {
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	return !now.Before(leaf.NotBefore) && now.Before(leaf.NotAfter.Add(-life/5))
}

// isFor reports whether a certificate has the names and the addresses of another. Further addresses do
// no harm.
func isFor(leaf, want *x509.Certificate) bool {
	for _, name := range want.DNSNames {
		if !slices.Contains(leaf.DNSNames, name) {
			return false
		}
	}
	for _, ip := range want.IPAddresses {
		if !slices.ContainsFunc(leaf.IPAddresses, ip.Equal) {
			return false
		}
	}
	return true
}

// template returns the content of a certificate that is made now. A node name can be an address.
func (s *selfSigned) template(ips []net.IP, now time.Time) *x509.Certificate {
	t := &x509.Certificate{
		Subject:               pkix.Name{CommonName: fmt.Sprintf("%s@%d", s.Host, now.Unix())},
		NotBefore:             now.Add(-time.Minute), // clocks differ
		NotAfter:              now.Add(selfSignedLife),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              []string{s.Host},
		IPAddresses:           ips,
	}
	if ip := net.ParseIP(s.Host); ip != nil {
		t.DNSNames, t.IPAddresses = nil, append(slices.Clip(ips), ip)
	}
	return t
}

// signSelf returns a certificate that is signed by its own key, and the key, in PEM format.
func signSelf(template *x509.Certificate) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, nil, fmt.Errorf("sign the certificate of the server: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	return cert, key, nil
}
