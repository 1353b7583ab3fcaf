// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/retry"
)

// issuePatience is the longest wait of an attempt for a certificate. The next attempt waits for the
// same request.
const issuePatience = 15 * time.Minute

var (
	errTemplateChanged = errors.New("the wanted names or addresses have changed")
	errPending         = errors.New("still pending after 15 minutes: an administrator or a controller must approve it (kubectl certificate approve)")
)

// attempt requests a certificate and makes it the current certificate. If an issued certificate
// could not be stored before, attempt only stores that certificate.
func (m *Manager) attempt(ctx context.Context, want Template) error {
	if m.unsaved != nil {
		return m.save(*m.unsaved)
	}
	requester, err := m.Requester(m.Current(), m.last)
	if err != nil {
		return err
	}
	r, err := m.openRequest(want)
	if err != nil {
		return err
	}
	object := r.object(m.Signer)
	chain, err := m.await(ctx, requester, r, want)
	var pair *tls.Certificate
	if err == nil {
		pair, err = r.pair(chain, want, time.Now())
		if err != nil { // another answer to the same request would be equal
			err = errors.Join(ErrRefused, err)
		}
	}
	if errors.Is(err, ErrRefused) {
		m.dropRequest()
	}
	if err != nil {
		return fmt.Errorf("certificate signing request %s: %w", object.Name, err)
	}
	m.use(pair)
	m.dropRequest()
	return m.save(issue{chain, r.key})
}

// await sends the request and waits for the certificate, until the wanted content changes.
func (m *Manager) await(ctx context.Context, requester Requester, r request, want Template) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, issuePatience, errPending)
	defer cancel()
	ctx, abandon := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer abandon(nil)
	watch.Go(func() {
		for retry.Sleep(ctx, templateInterval) == nil {
			if now, ok := m.Template(); ok && !now.equal(want) {
				abandon(errTemplateChanged)
			}
		}
	})
	object := r.object(m.Signer)
	uid, err := requester.Create(ctx, object)
	var chain []byte
	if err == nil {
		chain, err = requester.Wait(ctx, object.Name, uid)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return chain, err
}

// openRequest returns the request of an earlier attempt, also of an earlier agent, if the request
// is for the wanted certificate. Otherwise openRequest returns a new request.
func (m *Manager) openRequest(want Template) (request, error) {
	if m.open == nil {
		if stored, ok := m.Store.loadRequest(); ok {
			m.open = &stored
		}
	}
	if m.open != nil && m.open.asksFor(want) {
		return *m.open, nil
	}
	r, err := newRequest(want)
	if err != nil {
		return request{}, err
	}
	m.open = &r
	if err := m.Store.saveRequest(r); err != nil {
		m.Logger.Warn("cannot store the certificate signing request; a restart makes another one", zap.Error(err))
	}
	return r, nil
}

// dropRequest lets the next attempt make a new request. If the file cannot be removed, the next
// request replaces it. Otherwise the old request is only refused again.
func (m *Manager) dropRequest() {
	m.open = nil
	if err := m.Store.dropRequest(); err != nil {
		m.Logger.Warn("cannot remove an answered certificate signing request", zap.Error(err))
	}
}

// save stores an issued certificate, which is already in use. After an error the next attempt tries
// again.
func (m *Manager) save(i issue) error {
	m.unsaved = &i
	if err := m.Store.Save(i.chain, i.key, time.Now()); err != nil {
		m.machine.due = time.Now()
		return err
	}
	m.unsaved = nil
	m.machine.due = m.deadline(m.machine.leaf)
	return nil
}

// encodePair returns a certificate with its chain, and its key, in PEM format.
func encodePair(pair *tls.Certificate) (i issue, err error) {
	for _, der := range pair.Certificate {
		i.chain = append(i.chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return issue{}, err
	}
	i.key = pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der})
	return i, nil
}
