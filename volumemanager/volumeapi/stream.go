// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// A watch is requested for a time between 30 minutes and an hour, as servers choose by default.
// After that, the object is requested again.
const shortestWatch, longestWatch = 30 * time.Minute, time.Hour

// watchLifetime returns the requested duration of a watch. random is in [0, 1).
func watchLifetime(random float64) time.Duration {
	return shortestWatch + time.Duration(random*float64(longestWatch-shortestWatch))
}

// stream is an open watch.
type stream struct {
	inner  watch.Interface
	opened time.Time
	end    *time.Timer // for a server that does not end the watch
	stop   func()
}

// openStream opens a watch, within the time limit of a request.
func openStream(ctx context.Context, o ObjectsOptions, ref objects.Ref) (*stream, error) {
	lasts := watchLifetime(o.Random())
	inner, stop, err := clientkit.OpenWatch(ctx, requestTimeout, func(ctx context.Context) (watch.Interface, error) {
		return openWatch(ctx, o.Client, ref, int64(lasts/time.Second))
	})
	if err != nil {
		return nil, err
	}
	s := &stream{inner: inner, opened: time.Now(), stop: stop}
	s.end = time.AfterFunc(lasts+requestTimeout, inner.Stop)
	return s, nil
}

// close ends the watch and waits until its goroutines have ended.
func (s *stream) close() {
	s.end.Stop()
	s.stop()
}
