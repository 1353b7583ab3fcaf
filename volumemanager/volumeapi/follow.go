// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"context"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// feed follows a small collection of objects: list, then watch, and list again whenever the watch
// ends.
type feed struct {
	what   string // name of the kind, for the log
	logger *zap.Logger
	// list reads and passes on all objects, and returns the version to watch from.
	list func(ctx context.Context) (version string, err error)
	// watch opens a watch.
	watch func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
	// see passes on a change.
	see func(watch.Event)
}

// fewFailures caps the failure count once a watch is open: the server has answered, but is not yet
// stable.
const fewFailures = 3

// follow runs rounds until ctx ends. A failure is logged once, until the reason changes.
func (f *feed) follow(ctx context.Context) {
	failures, told := 0, metav1.StatusReason("")
	for ctx.Err() == nil {
		began := time.Now()
		err := f.round(ctx, func() {
			if told != "" {
				f.logger.Info("requests to the API server succeed again", zap.String("kind", f.what))
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
				f.logger.Warn("cannot follow objects of the API server", zap.String("kind", f.what), zap.Error(&Error{Verb: verbWatch, Reason: reason, Err: plain}))
			}
		}
		_ = retry.Sleep(ctx, retry.Backoff(failures, firstOutage, longestOutage, rand.Float64()))
	}
}

// round lists, then watches until the watch ends. well is called once the watch is open.
func (f *feed) round(ctx context.Context, well func()) error {
	version, err := request(ctx, verbGet, f.list)
	if err != nil {
		return err
	}
	lasts := watchLifetime(rand.Float64())
	seconds := int64(lasts / time.Second)
	w, stop, err := clientkit.OpenWatch(silent(ctx), requestTimeout, func(ctx context.Context) (watch.Interface, error) {
		return f.watch(ctx, metav1.ListOptions{ResourceVersion: version, TimeoutSeconds: &seconds})
	})
	if err != nil {
		return problem(objects.Ref{}, verbWatch, err)
	}
	defer stop()
	well()
	dead := time.After(lasts + requestTimeout) // for a server that does not end the watch
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-dead:
			return nil
		case e, alive := <-w.ResultChan():
			switch {
			case !alive:
				return nil
			case e.Type == watch.Error:
				return problem(objects.Ref{}, verbWatch, apierrors.FromObject(e.Object))
			}
			f.see(e)
		}
	}
}
