// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
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

// The ends of a certificate signing request without a certificate.
var (
	// ErrRefused means that the request was denied, or that the signer failed.
	ErrRefused = errors.New("the certificate signing request was refused")
	// ErrGone means that the request was deleted.
	ErrGone = errors.New("the certificate signing request was deleted")
)

// Requester sends certificate signing requests to an API server. NewRequester is the implementation on
// client-go.
type Requester interface {
	// Create creates the object and returns its UID. If an object of that name with the same request
	// exists, Create returns its UID.
	Create(context.Context, *certificatesv1.CertificateSigningRequest) (types.UID, error)
	// Wait returns the issued certificate with its chain in PEM format, as soon as there is one. The
	// error wraps ErrRefused or ErrGone if there will be none. Wait returns soon after ctx ends.
	Wait(ctx context.Context, name string, uid types.UID) ([]byte, error)
}

// Options configure a Manager.
type Options struct {
	// Store keeps the certificate. Required.
	Store *Store
	// Signer is certificates.k8s.io/v1's KubeAPIServerClientKubeletSignerName or
	// KubeletServingSignerName. Required.
	Signer string
	// Template returns the wanted content, and false while it is unknown. Run calls it every ten
	// seconds, also while it waits for a certificate, and never twice at the same time. Required.
	Template func() (Template, bool)
	// Requester returns the client for an attempt. current is the certificate if it is usable, else
	// nil; last is the error of the previous attempt. Required.
	Requester func(current *tls.Certificate, last error) (Requester, error)
	// Seed is a pair that is stored if the store has none. It is replaced as soon as possible.
	// Defaults to none.
	Seed *tls.Certificate
	// OnlyExpired keeps a certificate until it has expired. Defaults to replacing it after 70 % to
	// 90 % of its life.
	OnlyExpired bool
	// Observer is told of attempts. Defaults to none.
	Observer Observer
	// Logger receives a warning when attempts begin to fail. Defaults to none.
	Logger *zap.Logger
}

// Observer has functions that a Manager calls from the goroutine of Run. Each may be nil. They must
// not block.
type Observer struct {
	// Issued is called after a certificate was issued.
	Issued func(notAfter time.Time)
	// Failed is called after each failed attempt.
	Failed func(err error)
}

// Manager keeps a certificate valid: it requests a certificate, stores it, and replaces it before it
// expires.
type Manager struct {
	Options

	// The fields of Run's goroutine.
	machine machine
	phase   Phase    // when the loop looked last
	last    error    // of the previous attempt
	open    *request // without an answer yet
	unsaved *issue   // could not be stored yet

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

// New reads the store. Errors name the field or the file. A pair that cannot be read counts as
// missing. New starts no goroutine and sends no request.
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
	if opts.Logger == nil {
		opts.Logger = zap.NewNop()
	}
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
	if opts.Seed == nil {
		return m, nil
	}
	return m, m.seed()
}

// seed stores the pair of the options. It is due at once, because its key may be known elsewhere.
func (m *Manager) seed() error {
	i, err := encodePair(m.Seed)
	if err == nil {
		err = m.Store.Save(i.chain, i.key, time.Now())
	}
	if err != nil {
		return err
	}
	m.use(m.Seed)
	m.machine.due = time.Now()
	return nil
}

// Current returns the certificate, or nil if there is none or it has expired.
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
	defer m.mu.Unlock()
	m.mu.pair = pair
	close(m.mu.changed)
	m.mu.changed = make(chan struct{})
}

// deadline returns when a certificate is to be replaced.
func (m *Manager) deadline(leaf *x509.Certificate) time.Time {
	if m.OnlyExpired {
		return leaf.NotAfter
	}
	return Deadline(leaf.NotBefore, leaf.NotAfter, rand.Float64())
}

// Run requests certificates until ctx ends, and returns nil then. Call it once.
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
		err := m.attempt(ctx, *want)
		if ctx.Err() != nil {
			break
		}
		m.note(err)
	}
	return nil
}

// tellPhase logs that the certificate has expired.
func (m *Manager) tellPhase(phase Phase) {
	if phase == Expired && m.phase != Expired {
		m.Logger.Error("the certificate has expired, and is not used any more; another is requested", zap.String("signer", m.Signer))
	}
	m.phase = phase
}

// want returns the wanted content, or nil while it is unknown.
func (m *Manager) want() *Template {
	if t, ok := m.Template(); ok {
		return &t
	}
	return nil
}

// note records the result of an attempt.
func (m *Manager) note(err error) {
	if err == nil {
		if m.last != nil {
			m.Logger.Info("a certificate was issued after failures", zap.String("signer", m.Signer))
		}
		m.machine.issued(time.Now())
		if m.Observer.Issued != nil {
			m.Observer.Issued(m.machine.leaf.NotAfter)
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
