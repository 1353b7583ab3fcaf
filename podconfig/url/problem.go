// SPDX-License-Identifier: Apache-2.0

package url

import (
	"errors"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/failurelog"
)

const failed = "cannot take pods from the URL"

// maxTold limits the remembered problems, because a server can send ever new errors.
const maxTold = 100

// reporter reports each kind of problem once until all problems have ended, and then the end.
type reporter struct {
	told    map[string]bool
	problem func(err error)
	log     *zap.Logger
}

// set records the outcome of a poll.
func (r *reporter) set(err error) {
	if err == nil {
		if r.told != nil {
			r.tell(nil)
		}
		r.told = nil
		return
	}
	if kind := kindOf(err); !r.told[kind] {
		if r.told == nil || len(r.told) >= maxTold {
			r.told = map[string]bool{}
		}
		r.told[kind] = true
		r.tell(err)
	}
}

func (r *reporter) tell(err error) {
	switch {
	case r.problem != nil:
		r.problem(err)
	case err != nil:
		r.log.Warn(failed, zap.Error(errors.Unwrap(err)))
	default:
		r.log.Info("pods are read from the URL again", failurelog.Ends(failed))
	}
}

// kindOf returns equal values for problems that are the same to a reader.
func kindOf(err error) string {
	if transport, ok := errors.AsType[*TransportError](err); ok {
		return transport.kind
	}
	return err.Error()
}
