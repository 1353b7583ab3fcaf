// SPDX-License-Identifier: Apache-2.0

package podwatch

import (
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/internal/failurelog"
)

const failed = "cannot read pods from the API server"

// kind identifies problems to report once.
type kind struct {
	verb   string
	reason metav1.StatusReason
}

// reporter reports each kind of problem once until its verb succeeds again, and the end of the last
// problem. Only a single goroutine calls it at a time: the reflector lists only while no watch is
// open, and does neither while it submits changes.
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

// works records a success of a verb.
func (r *reporter) works(v string) {
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
		r.log.Info("requests to the API server succeed again", failurelog.Ends(failed))
	case e.Reason == clientkit.Expired:
		r.log.Info("API server has forgotten the known state, listing all pods", zap.Error(e))
	default:
		r.log.Warn(failed, zap.Error(e))
	}
}
