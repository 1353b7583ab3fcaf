// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"crypto/x509"
	"time"

	"github.com/keelson-dev/keelson/internal/retry"
)

// Phase is what is known of a certificate at an instant.
type Phase string

const (
	// None: there is no certificate.
	None Phase = "None"
	// Valid: the certificate is as wanted.
	Valid Phase = "Valid"
	// Due: the certificate is usable, and is to be replaced.
	Due Phase = "Due"
	// Expired: the certificate is not usable any more.
	Expired Phase = "Expired"
)

const (
	firstBackoff   = 2 * time.Second
	longestBackoff = 32 * time.Second // after an error of a request
	longestRefusal = 15 * time.Minute // after a denial, or a failure of the signer
	// restBetween is the time between two issued certificates, however short they live.
	restBetween = time.Minute
)

// Deadline returns when a certificate is to be replaced: after 70 % to 90 % of its life. r is a random
// number in [0, 1), so that the nodes of a cluster do not renew at the same instant.
func Deadline(notBefore, notAfter time.Time, r float64) time.Time {
	life := notAfter.Sub(notBefore)
	return notBefore.Add(time.Duration(float64(life) * (0.7 + 0.2*r)).Round(time.Second))
}

// machine decides when to request a certificate. It has no clock: the time is an argument.
type machine struct {
	leaf     *x509.Certificate // nil: none
	due      time.Time         // of leaf
	failures int               // in a row
	retryAt  time.Time         // no attempt before
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

// nextAttempt returns when to request a certificate, and false if there is nothing to request.
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

// adopt makes leaf the certificate. due is when it is to be replaced.
func (m *machine) adopt(leaf *x509.Certificate, due time.Time) { m.leaf, m.due = leaf, due }

// issued notes the success of an attempt.
func (m *machine) issued(now time.Time) { m.failures, m.retryAt = 0, now.Add(restBetween) }

// failed notes the failure of an attempt. After a refusal the waits grow longer, because each attempt
// leaves an object on the API server.
func (m *machine) failed(now time.Time, refused bool, r float64) {
	m.failures++
	longest := longestBackoff
	if refused {
		longest = longestRefusal
	}
	m.retryAt = now.Add(retry.Backoff(m.failures, firstBackoff, longest, r))
}
