// SPDX-License-Identifier: Apache-2.0

// Package failurelog logs a repeated failure only once, and tells a screen which problem has ended.
package failurelog

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Log logs the failures of one task. A Log is for one goroutine.
type Log struct {
	Logger *zap.Logger
	// Failed is the message of a failure. Recovered is the message of the next success; "" logs no
	// success.
	Failed, Recovered string
	last              string // the error text of the last attempt, "" after a success
}

// Report records the result of an attempt. A failure with the same text as the last
// failure is not logged.
func (l *Log) Report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == l.last:
	case err != nil:
		l.Logger.Warn(l.Failed, zap.Error(err))
	case l.Recovered != "":
		l.Logger.Info(l.Recovered, Ends(l.Failed))
	}
	l.last = text
}

// problem is the message of a problem that is over.
type problem string

// Ends returns a field for a message about the end of a problem, which was logged with another message and equal fields
// of its file, pod or source. No log has the field; Ended reads it, for a screen that shows present problems only.
func Ends(message string) zap.Field {
	return zap.Field{Type: zapcore.SkipType, Interface: problem(message)}
}

// Ended returns the message given to Ends, or "".
func Ended(fields []zap.Field) string {
	for _, f := range fields {
		if p, ok := f.Interface.(problem); ok {
			return string(p)
		}
	}
	return ""
}
