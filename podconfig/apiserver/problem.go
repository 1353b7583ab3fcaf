// SPDX-License-Identifier: Apache-2.0

package apiserver

import "go.uber.org/zap"

// kind is what is told once.
type kind struct {
	verb   Verb
	reason Reason
}

// reporter tells each kind of problem once until its verb works again, and when all is well again. One goroutine at a
// time calls it: the reflector lists only while no watch is open, and neither while it hands on what came.
type reporter struct {
	told    map[kind]bool
	problem func(err error)
	log     *zap.Logger
}

func (r *reporter) failed(e *Error) {
	if k := (kind{e.Verb, e.Reason}); !r.told[k] {
		r.told[k] = true
		r.tell(e)
	}
}

// works takes note that a verb succeeded.
func (r *reporter) works(v Verb) {
	before := len(r.told)
	for k := range r.told {
		if k.verb == v {
			delete(r.told, k)
		}
	}
	if before > 0 && len(r.told) == 0 {
		r.tell(nil)
	}
}

func (r *reporter) tell(e *Error) {
	switch {
	case r.problem != nil && e == nil:
		r.problem(nil)
	case r.problem != nil:
		r.problem(e)
	case e == nil:
		r.log.Info("API server is well again")
	case e.Reason == ReasonExpired:
		r.log.Info("API server has forgotten the known state, listing all pods", zap.Error(e))
	default:
		r.log.Warn("cannot read pods from the API server", zap.Error(e))
	}
}
