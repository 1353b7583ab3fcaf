// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// once lets a Run be called once.
type once struct {
	mu  sync.Mutex
	ran bool
}

func (o *once) begin() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ran {
		return ErrRunning
	}
	o.ran = true
	return nil
}

// feed is how a small collection of objects is followed: listed, then watched, and listed again whenever the watch ends.
type feed struct {
	what    string // for the log
	timeout time.Duration
	logger  *zap.Logger
	// list reads everything, hands it on, and returns the version to watch from.
	list func(ctx context.Context) (version string, err error)
	// watch opens a watch.
	watch func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
	// see hands on what has changed.
	see func(watch.Event)
}

// fewFailures is what failures count for after a watch was opened: the server is there again, but not yet for long.
const fewFailures = 3

// follow does so until ctx ends. What fails is logged once, until it fails differently.
func (f *feed) follow(ctx context.Context) {
	failures, told := 0, Reason("")
	for ctx.Err() == nil {
		began := time.Now()
		err := f.round(ctx, func() {
			if told != "" {
				f.logger.Info("API server is well again", zap.String("kind", f.what))
			}
			told = ""
			failures = min(failures, fewFailures)
		})
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= standing {
			failures = 0
		}
		if err == nil && failures == 0 {
			continue
		}
		failures++
		if err != nil {
			if reason, plain := judge(err); reason != told {
				told = reason
				f.logger.Warn("cannot follow objects of the API server", zap.String("kind", f.what), zap.Error(&Error{Verb: VerbWatch, Reason: reason, Err: plain}))
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff(failures, firstOutage, longestOutage, rand.Float64())):
		}
	}
}

// round lists, then watches until the watch ends. well is called when all is.
func (f *feed) round(ctx context.Context, well func()) error {
	version, err := request(ctx, f.timeout, VerbGet, f.list)
	if err != nil {
		return err
	}
	watching, cancel := context.WithCancelCause(silent(ctx))
	defer cancel(nil)
	lasts := shortestWatch + rand.N(longestWatch-shortestWatch)
	seconds := int64(lasts / time.Second)
	late := time.AfterFunc(f.timeout, func() { cancel(timeoutError{f.timeout}) })
	w, err := f.watch(watching, metav1.ListOptions{ResourceVersion: version, TimeoutSeconds: &seconds})
	if !late.Stop() && err == nil {
		drain(w)
		err = context.Cause(watching)
	}
	if err != nil {
		return problem(objects.Ref{}, VerbWatch, err)
	}
	defer drain(w)
	well()
	dead := time.NewTimer(lasts + f.timeout) // for a server that does not end it
	defer dead.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-dead.C:
			return nil
		case e, alive := <-w.ResultChan():
			switch {
			case !alive:
				return nil
			case e.Type == watch.Error:
				return problem(objects.Ref{}, VerbWatch, apierrors.FromObject(e.Object))
			}
			f.see(e)
		}
	}
}
