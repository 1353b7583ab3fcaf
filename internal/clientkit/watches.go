// SPDX-License-Identifier: Apache-2.0

package clientkit

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// OpenWatch calls open, which has to return within the given time. Otherwise the error is a
// TimeoutError. If ctx ends, the error is the cause. The caller calls stop once: it ends the watch and
// waits for the end of its goroutines.
func OpenWatch(ctx context.Context, within time.Duration, open func(context.Context) (watch.Interface, error)) (w watch.Interface, stop func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(within, func() { cancel(TimeoutError{After: within}) })
	w, err = open(ctx)
	if inTime := late.Stop(); err == nil && !inTime {
		drain(w)
		err = context.Cause(ctx)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		cancel(nil)
		return nil, nil, err
	}
	return w, func() { cancel(nil); drain(w) }, nil
}

// drain stops a watch and waits for the end of its events.
func drain(w watch.Interface) {
	w.Stop()
	for range w.ResultChan() {
	}
}
