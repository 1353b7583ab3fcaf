// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Options say which part of a log is wanted.
type Options struct {
	// Follow goes on with what is written later, until the container has ended.
	Follow bool
	// Tail is how many of the last lines there are to be; nil: all. Lines in
	// pieces count once, lines of a stream that is not wanted do not count.
	Tail *int64
	// LimitBytes ends reading after so many bytes, timestamps and newlines
	// included, even within a line; nil: no limit.
	LimitBytes *int64
	// Since drops lines that were begun before. It is looked at after Tail, as in
	// the kubelet. Zero: none.
	Since time.Time
	// Timestamps puts the time of its first piece before each line.
	Timestamps bool
}

// NewOptions reads the API's options. Where it has both sinceSeconds, which
// count back from now, and sinceTime, the later one holds. It does not look at
// container, previous and stream: those are about which log it is, and which
// writers are given to Read. Errors name the field.
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

// seconds converts without overflow.
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
