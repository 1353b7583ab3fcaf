// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// Run saves what it is told of, gathered over Options.Delay, until ctx ends; then it saves what is not saved yet and
// returns nil. What fails is told to Options.Problem and tried again, after a second at first, a minute at last. Call
// Save once more when podconfig.Run has returned, if its last updates came after ctx's end. A second Run is ErrRunning.
func (w *Writer) Run(ctx context.Context) error {
	if !w.started.CompareAndSwap(false, true) {
		return ErrRunning
	}
	l := &loop{writer: w, timer: time.NewTimer(0)}
	<-l.timer.C
	defer l.timer.Stop()
	for {
		select {
		case <-ctx.Done():
			l.finish()
			return nil
		case <-w.soon:
			l.plan(w.options.Delay)
		case <-w.late:
			l.plan(w.options.StatusDelay)
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
	told   string // the problem that Options.Problem was told last, "" if none
}

func (l *loop) plan(delay time.Duration) {
	l.pace.changed(time.Now(), delay)
	l.timer.Reset(time.Until(l.pace.due))
}

func (l *loop) save() {
	err := l.writer.Save()
	l.report(err)
	l.pace.saved(time.Now(), err)
	if !l.pace.due.IsZero() {
		l.timer.Reset(time.Until(l.pace.due))
	}
}

// finish takes in what was noted but not heard, and saves if there is anything to save.
func (l *loop) finish() {
	pending := !l.pace.due.IsZero() || len(l.writer.soon) > 0 || len(l.writer.late) > 0
	if pending {
		l.save()
	}
}

// report tells each problem once, and its end.
func (l *loop) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == l.told {
		return
	}
	l.told = text
	o := l.writer.options
	switch {
	case o.Problem != nil:
		o.Problem(err)
	case err != nil:
		o.Logger.Warn("Checkpoint cannot be written", zap.Error(err))
	default:
		o.Logger.Info("Checkpoint is written again", zap.String("path", o.Path))
	}
}
