// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// TLSOptions configure NewTLSConfig.
type TLSOptions struct {
	// Certificate returns the server's certificate for a handshake, or an error if there is none.
	// Required. See KeyPair and SelfSigned.
	Certificate func() (*tls.Certificate, error)
	// ClientAuthorities returns the authorities whose client certificates are accepted. Clients are
	// asked for a certificate, and may connect without: the Authenticator Certificates verifies it.
	// Defaults to none: clients are not asked.
	ClientAuthorities func() *x509.CertPool
	// MinVersion is the lowest version of TLS. Defaults to TLS 1.2, which is also the lowest that is
	// accepted.
	MinVersion uint16
	// CipherSuites are the suites of TLS 1.2. Defaults to those with forward secrecy and
	// authenticated encryption. TLS 1.3 has only such suites, and ignores the field.
	CipherSuites []uint16
}

// strongSuites are the suites of TLS 1.2 with an ephemeral key exchange and authenticated encryption.
var strongSuites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// NewTLSConfig returns the configuration of a TLS server that asks for the certificate and the client
// authorities in each handshake. HTTP/2 and HTTP/1.1 are offered; upgrades need the latter.
func NewTLSConfig(opts TLSOptions) (*tls.Config, error) {
	switch {
	case opts.Certificate == nil:
		return nil, errors.New("nodeserver: TLSOptions.Certificate is required")
	case opts.MinVersion == 0:
		opts.MinVersion = tls.VersionTLS12
	case opts.MinVersion < tls.VersionTLS12 || opts.MinVersion > tls.VersionTLS13:
		return nil, errors.New("nodeserver: TLSOptions.MinVersion: want TLS 1.2 or 1.3")
	}
	if opts.CipherSuites == nil {
		opts.CipherSuites = strongSuites
	}
	config := &tls.Config{
		MinVersion:   opts.MinVersion,
		CipherSuites: opts.CipherSuites,
		NextProtos:   []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return opts.Certificate()
		},
	}
	if opts.ClientAuthorities == nil {
		return config, nil
	}
	config.ClientAuth = tls.RequestClientCert
	asking := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := asking.Clone()
		c.ClientCAs = opts.ClientAuthorities() // named to the client, so that it can choose a certificate
		return c, nil
	}
	return config, nil
}
