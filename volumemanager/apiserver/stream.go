// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// A watch is asked to last between half an hour and an hour, as a server chooses by itself; after that the object is
// asked for anew.
const shortestWatch, longestWatch = 30 * time.Minute, time.Hour

// stream is an open watch.
type stream struct {
	inner  watch.Interface
	opened time.Time
	end    *time.Timer // for a server that does not end it
	cancel context.CancelCauseFunc
}

// openStream opens a watch, within the time for a request.
func openStream(ctx context.Context, o ObjectsOptions, ref objects.Ref) (*stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	lasts := shortestWatch + rand.N(longestWatch-shortestWatch)
	late := time.AfterFunc(o.Timeout, func() { cancel(timeoutError{o.Timeout}) })
	inner, err := openWatch(ctx, o.Client, ref, int64(lasts/time.Second))
	inTime := late.Stop()
	if err == nil && !inTime {
		drain(inner)
		err = context.Cause(ctx)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		cancel(nil)
		return nil, err
	}
	s := &stream{inner: inner, opened: time.Now(), cancel: cancel}
	s.end = time.AfterFunc(lasts+o.Timeout, inner.Stop)
	return s, nil
}

// close ends the watch, if it has not, and returns when nothing of it is left.
func (s *stream) close() {
	s.end.Stop()
	s.cancel(nil)
	drain(s.inner)
}

// drain stops a watch and waits for its end.
func drain(w watch.Interface) {
	w.Stop()
	for range w.ResultChan() {
	}
}
