// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/internal/restartrule"
)

// planRegular plans the regular containers of an initialized pod. kept is the number of running
// containers that stay. due is the number of containers to start, now or when the sidecars are up.
//
// A container in an unknown state that is not restarted is stopped. Its exit decides the next plan.
// Until then the container has not ended and counts as kept. (The kubelet starts the container
// again, so a "Never" container may run twice.)
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
		case st != nil && st.State == StateUnknown && !restartrule.AfterKill(&p.pod.Spec, c):
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

// keepRunning reports whether a running container stays. A container with a changed spec is
// replaced under every restart policy, because the old spec is no longer wanted. After a failed
// probe the container is restarted unless its policy is Never. With the policy Never the container
// is killed and counts as kept, so that the pod is not stopped before the next plan. The grace
// period of the failed probe then applies, and restart rules decide by the exit code. (The kubelet
// stops the pod with the grace period of the pod. A matching rule then makes a new sandbox, without
// back-off.)
func (p *planner) keepRunning(ref Ref, c *v1.Container, st *ContainerStatus) bool {
	var reason KillReason
	var found string
	_, startFailed := p.startup(c, st.ID)
	switch {
	case st.Hash != containermeta.Hash(c):
		p.restart(ref, st, killSpecChanged, causeSpecChanged)
		return false
	case p.isDead(c, st.ID):
		reason, found = killLivenessProbe, causeLiveness
	case startFailed:
		reason, found = killStartupProbe, causeStartup
	default:
		return p.fit(ref, c, st)
	}
	if restartrule.AfterKill(&p.pod.Spec, c) {
		p.restart(ref, st, reason, found)
		return false
	}
	p.kill(st, reason, found)
	return true
}

// finished reports whether container c is known to have ended for good. newest is nil, or an
// instance that never ran.
func (p *planner) finished(c *v1.Container, newest *ContainerStatus) bool {
	return p.known != nil && (newest == nil || newest.State == StateCreated) && p.known(c.Name, newest)
}
