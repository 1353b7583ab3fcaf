// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Options select a part of a log.
type Options struct {
	// Follow continues with later output until the container has terminated.
	Follow bool
	// Tail is the number of last lines; nil: all. A line in pieces counts once. Lines of an
	// unwanted stream do not count.
	Tail *int64
	// LimitBytes ends the reading after the given number of bytes, including timestamps and
	// newlines, even within a line; nil: no limit.
	LimitBytes *int64
	// Since drops lines that began before Since. The filter is applied after Tail, as in the
	// kubelet. Zero: none.
	Since time.Time
	// Timestamps prefixes each line with the time of its first piece.
	Timestamps bool
}

// NewOptions converts the API's options. If both sinceSeconds (counted back from now) and sinceTime
// are set, the later time applies. The fields container, previous and stream are ignored, because
// they select the log and the writers of Read. Errors name the field.
func NewOptions(api *v1.PodLogOptions, now time.Time) (Options, error) {
	o := Options{Follow: api.Follow, Tail: api.TailLines, LimitBytes: api.LimitBytes, Timestamps: api.Timestamps}
	if api.SinceTime != nil {
		o.Since = api.SinceTime.Time
	}
	if n := api.SinceSeconds; n != nil {
		if *n < 1 {
			return Options{}, fmt.Errorf("sinceSeconds: %d is less than 1", *n)
		}
		if at := now.Add(-seconds(*n)); at.After(o.Since) {
			o.Since = at
		}
	}
	return o, o.validate()
}

// seconds converts n without overflow.
func seconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second)
	return time.Duration(min(n, most)) * time.Second
}

func (o Options) validate() error {
	switch {
	case o.Tail != nil && *o.Tail < 0:
		return fmt.Errorf("tailLines: %d is negative", *o.Tail)
	case o.LimitBytes != nil && *o.LimitBytes < 1:
		return errors.New("limitBytes: less than 1")
	}
	return nil
}
