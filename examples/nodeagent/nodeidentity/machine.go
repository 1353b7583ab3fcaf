// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"crypto/x509"
	"time"

	"github.com/keelson-dev/keelson/internal/retry"
)

// Phase is the phase of a certificate at an instant.
type Phase string

const (
	// None: no certificate exists.
	None Phase = "None"
	// Valid: the certificate is usable and has the wanted content.
	Valid Phase = "Valid"
	// Due: the certificate is usable, and has to be replaced.
	Due Phase = "Due"
	// Expired: the certificate is no longer usable.
	Expired Phase = "Expired"
)

const (
	firstBackoff   = 2 * time.Second
	longestBackoff = 32 * time.Second // after an error of a request
	longestRefusal = 15 * time.Minute // after a denial, or a failure of the signer
	// restBetween is the minimum time between two issued certificates, even for short-lived
	// certificates.
	restBetween = time.Minute
)

// Deadline returns the time for replacing a certificate: after 70 % to 90 % of its life. r is a
// random number in [0, 1), so that the nodes of a cluster do not renew at the same instant.
func Deadline(notBefore, notAfter time.Time, r float64) time.Time {
	life := notAfter.Sub(notBefore)
	return notBefore.Add(time.Duration(float64(life) * (0.7 + 0.2*r)).Round(time.Second))
}

// machine decides when to request a certificate. The time is an argument of its methods.
type machine struct {
	leaf     *x509.Certificate // nil: none
	due      time.Time         // of leaf
	failures int               // in a row
	retryAt  time.Time         // earliest time of the next attempt
}

// phase returns the phase of the certificate. want is nil while the wanted content is unknown.
func (m *machine) phase(now time.Time, want *Template) Phase {
	switch {
	case m.leaf == nil:
		return None
	case !now.Before(m.leaf.NotAfter):
		return Expired
	case !now.Before(m.due), want != nil && want.Missing(m.leaf) != "":
		return Due
	}
	return Valid
}

// nextAttempt returns the time of the next request, and false if no request is needed.
func (m *machine) nextAttempt(now time.Time, want *Template) (time.Time, bool) {
	if want == nil {
		return time.Time{}, false
	}
	at := now
	if m.phase(now, want) == Valid {
		at = m.due
	}
	if at.Before(m.retryAt) {
		at = m.retryAt
	}
	return at, true
}

// adopt makes leaf the certificate. due is the time for its replacement.
func (m *machine) adopt(leaf *x509.Certificate, due time.Time) { m.leaf, m.due = leaf, due }

// issued records a successful attempt.
func (m *machine) issued(now time.Time) { m.failures, m.retryAt = 0, now.Add(restBetween) }

// failed records a failed attempt. After a refusal the waits grow longer, because each attempt
// leaves an object on the API server.
func (m *machine) failed(now time.Time, refused bool, r float64) {
	m.failures++
	longest := longestBackoff
	if refused {
		longest = longestRefusal
	}
	m.retryAt = now.Add(retry.Backoff(m.failures, firstBackoff, longest, r))
}
