// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"sync"
	"time"
)

// auditRest is the longest time between two audits.
const auditRest = 10 * time.Minute

// auditPace tells when an audit for leftovers is due. Leftovers come from changing calls that were
// cut short: the call of this agent failed, or an earlier agent was killed. An audit looks at every
// process of the node, which was a quarter of the idle agent's work on containerd. Because a
// backend may execute an interrupted call for a while, an audit is repeated, in pauses that double
// up to auditRest.
type auditPace struct {
	mu     sync.Mutex
	failed time.Time // end of the last failed changing call; at first the start of the agent
	clean  time.Time // begin of the last audit without an error
}

// note notes the end of a changing call, and returns the error of the call.
func (p *auditPace) note(err error) error {
	if err != nil {
		p.mu.Lock()
		p.failed = time.Now()
		p.mu.Unlock()
	}
	return err
}

// isDue reports whether an audit is due at now.
func (p *auditPace) isDue(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clean.IsZero() || now.Sub(p.clean) >= min(p.clean.Sub(p.failed), auditRest)
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
