// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"sync"
	"time"
)

const (
	// auditSettle is the time after a changing call in which its leftovers may still appear: a
	// backend executes an interrupted call for a while.
	auditSettle = 5 * time.Minute
	// auditRest is the time between two audits of a backend without changing calls.
	auditRest = 10 * time.Minute
)

// auditPace tells when an audit for leftovers is due. Leftovers come from changing calls that were
// cut short. An audit looks at every process of the node, which was a quarter of the idle agent's
// work on containerd.
type auditPace struct {
	mu      sync.Mutex
	changed time.Time // begin or end of the last changing call
	clean   time.Time // begin of the last audit without an error
}

// change notes the begin of a changing call. The caller calls done at its end.
func (p *auditPace) change() (done func()) {
	p.note()
	return p.note
}

func (p *auditPace) note() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = time.Now()
}

// isDue reports whether an audit is due at now.
func (p *auditPace) isDue(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clean.IsZero() || p.clean.Sub(p.changed) < auditSettle || now.Sub(p.clean) >= auditRest
}

// ended notes an audit that began at a time.
func (p *auditPace) ended(began time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clean = began; err != nil {
		p.clean = time.Time{}
	}
}

// collectLeftovers removes the leftovers of the backend if an audit is due.
func (m *Manager) collectLeftovers(ctx context.Context) error {
	began := time.Now()
	if !m.rt.pace.isDue(began) {
		return nil
	}
	err := CollectLeftovers(ctx, m.auditor)
	m.rt.pace.ended(began, err)
	return err
}
