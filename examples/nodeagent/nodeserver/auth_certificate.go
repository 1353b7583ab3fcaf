// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
)

// uidAttribute is the attribute of a certificate's subject with the UID of the user.
var uidAttribute = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}

// credentialKey is the key of User.Extra with the fingerprint of the certificate.
const credentialKey = "authentication.kubernetes.io/credential-id"

// Certificates returns an Authenticator for the client certificates of TLS connections. The
// certificate is verified in each request, with the authorities that roots returns at that time, so
// that a removed authority also ends access over old connections. roots must not return nil.
func Certificates(roots func() *x509.CertPool) Authenticator { return certificates{roots} }

type certificates struct{ roots func() *x509.CertPool }

// Authenticate implements Authenticator.
func (c certificates) Authenticate(r *http.Request) (User, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return User{}, false, nil
	}
	leaf := r.TLS.PeerCertificates[0]
	opts := x509.VerifyOptions{
		Roots:         c.roots(),
		Intermediates: x509.NewCertPool(),
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, other := range r.TLS.PeerCertificates[1:] {
		opts.Intermediates.AddCert(other)
	}
	if opts.Roots == nil { // x509 would use the authorities of the system
		return User{}, false, errors.New("client certificate: no authorities are known")
	}
	if _, err := leaf.Verify(opts); err != nil {
		return User{}, false, fmt.Errorf("client certificate: %w", err)
	}
	user, err := userOf(leaf)
	return user, err == nil, err
}

// userOf returns the user of a client certificate: the common name, and the organizations as groups.
func userOf(leaf *x509.Certificate) (User, error) {
	if leaf.Subject.CommonName == "" {
		return User{}, errors.New("client certificate: the subject has no common name")
	}
	sum := sha256.Sum256(leaf.Raw)
	user := User{
		Name:   leaf.Subject.CommonName,
		Groups: leaf.Subject.Organization,
		Extra:  map[string][]string{credentialKey: {"X509SHA256=" + hex.EncodeToString(sum[:])}},
	}
	for _, name := range leaf.Subject.Names {
		if !name.Type.Equal(uidAttribute) {
			continue
		}
		uid, isText := name.Value.(string)
		if !isText || uid == "" || user.UID != "" {
			return User{}, errors.New("client certificate: the subject must have one UID, of text")
		}
		user.UID = uid
	}
	return user, nil
}
