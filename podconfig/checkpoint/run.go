// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/failurelog"
)

// Run saves the updates of Tee, gathered over a second, until ctx ends. Then it saves pending
// updates and returns nil. A failure is logged and retried, first after a second, at last every
// minute. If podconfig.Run sends further updates after ctx's end, call Save once more after
// podconfig.Run has returned. A second Run returns ErrRunning.
func (w *Writer) Run(ctx context.Context) error {
	if !w.started.CompareAndSwap(false, true) {
		return ErrRunning
	}
	l := &loop{writer: w, timer: time.NewTimer(0), failed: failurelog.Log{
		Logger: w.options.Logger.With(zap.String("path", w.options.Path)),
		Failed: "checkpoint cannot be written", Recovered: "checkpoint is written again",
	}}
	<-l.timer.C
	defer l.timer.Stop()
	for {
		select {
		case <-ctx.Done():
			l.savePending()
			return nil
		case <-w.soon:
			l.plan(writeDelay)
		case <-w.late:
			l.plan(statusDelay)
		case <-l.timer.C:
			l.save()
		}
	}
}

// loop is the state of one Run.
type loop struct {
	writer *Writer
	pace   pace
	timer  *time.Timer
	failed failurelog.Log
}

func (l *loop) plan(delay time.Duration) {
	l.pace.changed(time.Now(), delay)
	l.timer.Reset(time.Until(l.pace.due))
}

func (l *loop) save() {
	err := l.writer.Save()
	l.failed.Report(err)
	l.pace.saved(time.Now(), err)
	if !l.pace.due.IsZero() {
		l.timer.Reset(time.Until(l.pace.due))
	}
}

// savePending saves if a noted update is pending.
func (l *loop) savePending() {
	pending := !l.pace.due.IsZero() || len(l.writer.soon) > 0 || len(l.writer.late) > 0
	if pending {
		l.save()
	}
}
