// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sync/atomic"

	"go.uber.org/zap"
)

// verbosity is the value of -v, which requests on --port may change.
type verbosity struct {
	level zap.AtomicLevel // of the agent's log
	klog  atomic.Int32    // the most detailed messages of packages that log through klog
}

func newVerbosity(n int) *verbosity {
	v := &verbosity{level: zap.NewAtomicLevel()}
	v.set(n)
	return v
}

// set makes the log as detailed as with -v n.
func (v *verbosity) set(n int) {
	level := zap.InfoLevel
	if n > 0 {
		level = zap.DebugLevel
	}
	v.level.SetLevel(level)
	v.klog.Store(int32(n))
	setKlogVerbosity(n)
}
