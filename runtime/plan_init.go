// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// planInit plans the init containers and reports whether the pod is initialized
// in its current sandbox. Only instances of that sandbox count: what an earlier
// one saw, before a reboot say, proves nothing (#137710, #136969, #126650).
//
// It walks from the last init container to the first, since the last one that
// was ever made says how far init has come; before that one, only sidecars are
// looked after.
func (p *planner) planInit() (initialized bool) {
	list := p.pod.Spec.InitContainers
	if len(list) == 0 {
		return true
	}
	w := initWalk{planner: p, last: len(list) - 1}
	w.initialized = p.regularMade()
	w.past = w.initialized
	for i := w.last; i >= 0; i-- {
		c, st := &list[i], p.status.Active(list[i].Name)
		switch {
		case IsSidecar(c):
			w.sidecar(i, c, st)
		case st != nil && !w.past:
			w.plain(i, c, st)
		}
		if w.failed {
			p.killPod(fmt.Sprintf("init container %s failed and is not restarted", c.Name))
			return false
		}
		w.past = w.past || st != nil
	}
	if !w.past {
		p.start(Ref{GroupInit, 0}, causeFirst)
	}
	slices.Reverse(p.out.Start)
	slices.Reverse(p.out.Kill)
	return w.initialized
}

// regularMade reports whether a regular container was ever made in the current
// sandbox, which is done only once init is complete.
func (p *planner) regularMade() bool {
	for i := range p.pod.Spec.Containers {
		if p.status.Active(p.pod.Spec.Containers[i].Name) != nil {
			return true
		}
	}
	return false
}

// initWalk is the state of planInit between two init containers.
type initWalk struct {
	*planner
	last        int
	initialized bool // all of init is complete
	past        bool // a later container was made, so init has come past this one
	failed      bool // init cannot complete any more
}

// plain decides about the furthest init container that was made, one that runs
// to completion.
func (w *initWalk) plain(i int, c *v1.Container, st *ContainerStatus) {
	ref := Ref{GroupInit, i}
	switch {
	case st.State == StateRunning:
		w.fit(ref, c, st)
	case st.State == StateCreated:
		w.start(ref, causeNeverRan)
	case st.State == StateExited && !st.Failed():
		w.proceed(i, c)
	case st.State == StateUnknown && !w.mayRetryInit(c, st):
		// How it ends decides. (The kubelet fails the pod, and may find out later, by
		// the record of an init container that has completed, that it has not.)
		w.kill(st, KillUnknownState, causeUnknown)
	case !w.mayRetryInit(c, st):
		w.failed = true
	case st.State == StateExited:
		w.start(ref, startCause(st))
	default:
		w.restart(ref, st, KillUnknownState, causeUnknown)
	}
}

// mayRetryInit reports whether a plain init container that failed may run
// again. A state nobody knows has no exit code, so rules cannot apply to it.
func (p *planner) mayRetryInit(c *v1.Container, st *ContainerStatus) bool {
	return ShouldRestart(p.pod, c, st)
}

// sidecar keeps sidecar i up, whatever its exit and the pod's policy.
func (w *initWalk) sidecar(i int, c *v1.Container, st *ContainerStatus) {
	ref := Ref{GroupInit, i}
	switch {
	case st == nil && w.past:
		w.start(ref, "its record was lost")
	case st == nil:
	case st.State == StateRunning:
		w.runningSidecar(ref, c, st)
	case st.State == StateUnknown:
		w.restart(ref, st, KillUnknownState, causeUnknown)
	default:
		w.start(ref, startCause(st))
	}
}

// runningSidecar lets init go on once the sidecar has started. Only its startup
// probe can hold init up, never its liveness probe.
func (w *initWalk) runningSidecar(ref Ref, c *v1.Container, st *ContainerStatus) {
	switch w.startup(c, st.ID) {
	case VerdictSuccess:
	case VerdictFailure:
		w.restart(ref, st, KillStartupProbe, causeStartup)
		return
	default:
		return
	}
	if !w.past {
		w.proceed(ref.Index, c)
	}
	switch {
	case st.Hash != w.hash(c):
		w.restart(ref, st, KillSpecChanged, causeSpecChanged)
	case w.liveness(c, st.ID) == VerdictFailure:
		w.restart(ref, st, KillLivenessProbe, causeLiveness)
	default:
		w.fit(ref, c, st)
	}
}

// proceed goes on to what follows init container i.
func (w *initWalk) proceed(i int, c *v1.Container) {
	if i == w.last {
		w.initialized = true
		return
	}
	w.start(Ref{GroupInit, i + 1}, causeFirst+", after "+c.Name)
}
