// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
)

// planRegular plans the regular containers of an initialized pod and returns how many
// are kept as they run and how many are to be started, if need be when the sidecars are
// up.
//
// One that was lost sight of and is not restarted is stopped, and what follows is
// decided by how it has ended: until then it is not over, and counts as kept. (The
// kubelet starts it again: a "Never" container may run twice.)
func (p *planner) planRegular() (kept, due int) {
	before := p.due
	for i := range p.pod.Spec.Containers {
		ref, c := Ref{GroupRegular, i}, &p.pod.Spec.Containers[i]
		st := p.status.Latest(c.Name)
		switch {
		case st != nil && st.State == StateRunning:
			if p.keepRunning(ref, c, st) {
				kept++
			}
		case st != nil && st.State == StateUnknown && !restartsAfterKill(p.pod, c):
			p.kill(st, killUnknownState, causeUnknown)
			kept++
		case p.finished(c, st):
		case !ShouldRestart(p.pod, c, st):
		case st != nil && st.State == StateUnknown:
			p.restart(ref, st, killUnknownState, causeUnknown)
		default:
			p.start(ref, startCause(st))
		}
	}
	return kept, p.due - before
}

// keepRunning reports whether a running container is left as it is. A changed
// spec replaces it whatever the restart policy, since the old one is not what is
// wanted; a failed probe restarts it unless the policy is Never. Then it is killed, and
// counts as kept, so that the pod is not stopped before the next plan: the grace period of
// the failed probe applies, and restart rules decide by the exit code. (The kubelet stops
// the pod, with the grace period of the pod, and a rule that matches makes a new sandbox,
// in which no back-off is owed.)
func (p *planner) keepRunning(ref Ref, c *v1.Container, st *ContainerStatus) bool {
	var reason KillReason
	var found string
	switch {
	case st.Hash != containermeta.Hash(c):
		p.restart(ref, st, killSpecChanged, causeSpecChanged)
		return false
	case p.liveness(c, st.ID) == VerdictFailure:
		reason, found = killLivenessProbe, causeLiveness
	case p.startup(c, st.ID) == VerdictFailure:
		reason, found = killStartupProbe, causeStartup
	default:
		return p.fit(ref, c, st)
	}
	if restartsAfterKill(p.pod, c) {
		p.restart(ref, st, reason, found)
		return false
	}
	p.kill(st, reason, found)
	return true
}

// finished reports whether c, of which there is no record but, maybe, of a newest
// instance that never ran, is known to have run for good.
func (p *planner) finished(c *v1.Container, newest *ContainerStatus) bool {
	return p.known != nil && (newest == nil || newest.State == StateCreated) && p.known(c.Name, newest)
}
