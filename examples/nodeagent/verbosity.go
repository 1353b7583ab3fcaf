// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// verbosity is the value of -v, which requests on --port may change. It implements
// zapcore.LevelEnabler. zap.AtomicLevel would link an HTTP handler that a small node does not use.
type verbosity struct{ n atomic.Int32 }

func newVerbosity(n int) *verbosity {
	v := &verbosity{}
	v.set(n)
	return v
}

// Enabled leaves out details without -v.
func (v *verbosity) Enabled(level zapcore.Level) bool {
	return level >= zap.InfoLevel || level >= zap.DebugLevel && v.n.Load() > 0
}

// set makes the log as detailed as with -v n.
func (v *verbosity) set(n int) {
	v.n.Store(int32(n))
	setKlogVerbosity(n)
}
