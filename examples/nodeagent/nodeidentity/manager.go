// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/retry"
)

// Errors of a certificate signing request without a certificate.
var (
	// ErrRefused: the request was denied, or the signer failed.
	ErrRefused = errors.New("the certificate signing request was refused")
	// ErrGone: the request was deleted.
	ErrGone = errors.New("the certificate signing request was deleted")
)

// Requester sends certificate signing requests to an API server. NewRequester returns an
// implementation on client-go.
type Requester interface {
	// Create creates the object and returns its UID. If an object of the same name and with the
	// same request exists, Create returns the UID of the existing object.
	Create(context.Context, *certificatesv1.CertificateSigningRequest) (types.UID, error)
	// Wait waits for the certificate and returns it with its chain in PEM format. If no certificate
	// will be issued, the error wraps ErrRefused or ErrGone. Wait returns soon after ctx ends.
	Wait(ctx context.Context, name string, uid types.UID) ([]byte, error)
}

// Options configures a Manager.
type Options struct {
	// Store keeps the certificate. Required.
	Store *Store
	// Signer is certificates.k8s.io/v1's KubeAPIServerClientKubeletSignerName or
	// KubeletServingSignerName. Required.
	Signer string
	// Template returns the wanted content, and false while the content is unknown. Run calls
	// Template every ten seconds, also while an attempt waits for a certificate, and never
	// concurrently. Required.
	Template func() (Template, bool)
	// Requester returns the client for an attempt. current is the usable certificate, or nil. last
	// is the error of the previous attempt. Required.
	Requester func(current *tls.Certificate, last error) (Requester, error)
	// initial is the pair for an empty store. Run replaces it as soon as possible. Defaults to
	// none.
	initial *tls.Certificate
	// onlyExpired keeps a certificate until it has expired. Defaults to a replacement after 70 % to
	// 90 % of its life.
	onlyExpired bool

	// replaced is called after the certificate was replaced. Defaults to nil.
	replaced func()
	// Observer is called for each attempt. Defaults to none.
	Observer Observer
	// Logger receives a warning when attempts begin to fail. Defaults to none.
	Logger *zap.Logger
}

// Observer has functions that a Manager calls in the goroutine of Run. Each may be nil. The
// functions must not block.
type Observer struct {
	// Issued is called after a certificate was issued.
	Issued func(notAfter time.Time)
	// Replaced is called after Issued if there was a certificate before, with the time since that
	// certificate became valid.
	Replaced func(age time.Duration)
	// Failed is called after each failed attempt.
	Failed func(err error)
}

// Manager keeps a certificate valid: it requests and stores a certificate, and replaces the
// certificate before the end of its life.
type Manager struct {
	Options

	// The fields of Run's goroutine.
	machine machine
	phase   Phase    // phase at the last look of the loop
	last    error    // of the previous attempt
	open    *request // request without an answer
	unsaved *issue   // issued certificate that is not stored yet

	mu struct {
		sync.Mutex
		pair    *tls.Certificate
		changed chan struct{} // closed at the next change
	}
}

// issue is an issued certificate with its chain, and its key, in PEM format.
type issue struct{ chain, key []byte }

// templateInterval is the time between two calls of Template.
const templateInterval = 10 * time.Second

// New reads the store. Errors name the field or the file. An unreadable pair counts as missing. New
// starts no goroutine and sends no request.
func New(opts Options) (*Manager, error) {
	switch {
	case opts.Store == nil:
		return nil, errors.New("nodeidentity: Options.Store is required")
	case opts.Signer == "":
		return nil, errors.New("nodeidentity: Options.Signer is required")
	case opts.Template == nil:
		return nil, errors.New("nodeidentity: Options.Template is required")
	case opts.Requester == nil:
		return nil, errors.New("nodeidentity: Options.Requester is required")
	}
	opts.Logger = cmp.Or(opts.Logger, zap.NewNop())
	m := &Manager{Options: opts}
	m.mu.changed = make(chan struct{})
	pair, err := opts.Store.Load()
	switch {
	case err == nil:
		m.use(pair)
		return m, nil
	case !errors.Is(err, fs.ErrNotExist):
		opts.Logger.Warn("cannot use the stored certificate; another is requested", zap.Error(err))
	}
	if opts.initial == nil {
		return m, nil
	}
	return m, m.seed()
}

// seed stores the pair of the options. The pair is due at once, because other holders may have its
// key.
func (m *Manager) seed() error {
	i, err := encodePair(m.initial)
	if err == nil {
		err = m.Store.Save(i.chain, i.key, time.Now())
	}
	if err != nil {
		return err
	}
	m.use(m.initial)
	m.machine.due = time.Now()
	return nil
}

// Current returns the certificate, or nil for a missing or expired certificate.
func (m *Manager) Current() *tls.Certificate {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.pair == nil || !time.Now().Before(m.mu.pair.Leaf.NotAfter) {
		return nil
	}
	return m.mu.pair
}

// Changed returns a channel that is closed when the certificate is replaced.
func (m *Manager) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.changed
}

// use makes pair the current certificate.
func (m *Manager) use(pair *tls.Certificate) {
	m.machine.adopt(pair.Leaf, m.deadline(pair.Leaf))
	m.mu.Lock()
	m.mu.pair = pair
	close(m.mu.changed)
	m.mu.changed = make(chan struct{})
	m.mu.Unlock()
	if m.replaced != nil {
		m.replaced()
	}
}

// deadline returns the time for replacing a certificate.
func (m *Manager) deadline(leaf *x509.Certificate) time.Time {
	if m.onlyExpired {
		return leaf.NotAfter
	}
	return Deadline(leaf.NotBefore, leaf.NotAfter, rand.Float64())
}

// Run requests certificates until ctx ends, and then returns nil. Call Run once.
func (m *Manager) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		want := m.want()
		m.tellPhase(m.machine.phase(time.Now(), want))
		at, ok := m.machine.nextAttempt(time.Now(), want)
		wait := templateInterval
		if ok {
			wait = min(wait, time.Until(at))
		}
		if !ok || wait > 0 {
			_ = retry.Sleep(ctx, wait)
			continue
		}
		before := m.machine.leaf
		err := m.attempt(ctx, *want)
		if ctx.Err() != nil {
			break
		}
		m.note(err, before)
	}
	return nil
}

// tellPhase logs that the certificate has expired.
func (m *Manager) tellPhase(phase Phase) {
	if phase == Expired && m.phase != Expired {
		m.Logger.Error("the certificate has expired and is no longer used; the next certificate is requested", zap.String("signer", m.Signer))
	}
	m.phase = phase
}

// want returns the wanted content, or nil while the content is unknown.
func (m *Manager) want() *Template {
	if t, ok := m.Template(); ok {
		return &t
	}
	return nil
}

// note records the result of an attempt. before is the certificate before the attempt, or nil.
func (m *Manager) note(err error, before *x509.Certificate) {
	if err == nil {
		if m.last != nil {
			m.Logger.Info("a certificate was issued after failures", zap.String("signer", m.Signer))
		}
		m.machine.issued(time.Now())
		if m.Observer.Issued != nil {
			m.Observer.Issued(m.machine.leaf.NotAfter)
		}
		if m.Observer.Replaced != nil && before != nil {
			m.Observer.Replaced(time.Since(before.NotBefore))
		}
		m.last = nil
		return
	}
	if m.last == nil || m.last.Error() != err.Error() {
		m.Logger.Warn("no certificate was issued; trying on", zap.String("signer", m.Signer),
			zap.String("phase", string(m.machine.phase(time.Now(), m.want()))), zap.Error(err))
	}
	m.machine.failed(time.Now(), errors.Is(err, ErrRefused), rand.Float64())
	m.last = err
	if m.Observer.Failed != nil {
		m.Observer.Failed(err)
	}
}
