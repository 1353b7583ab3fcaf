// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// Intervals of Run. They are the kubelet's (version 1.36).
const (
	// DefaultInterval is the default of Options.Interval.
	DefaultInterval = 5 * time.Minute
	// detectInterval is the longest time between two detections of new and used images. Every
	// collection detects images, too.
	detectInterval = 5 * time.Minute
	// listInterval is how often GetImageList is refreshed.
	listInterval = 30 * time.Second
)

// CallTimeout limits a single call to Images, InUse, Disk or Store of Options.
const CallTimeout = 2 * time.Minute

// Options configure a Collector. Every func is called without a lock held.
type Options struct {
	// Images lists and removes the runtime's images. Required.
	Images ImageService
	// InUse reports the images in use. Required.
	InUse InUse
	// Disk measures the file system of the images. Required.
	Disk DiskUsage

	// Policy decides when images are removed. Defaults to the kubelet's.
	Policy Policy
	// DryRun stops every pass after its plan. No image is removed, no record is saved, and Events
	// is not called.
	DryRun bool
	// Store keeps ages across a restart. Without a Store, a new collector detects every image anew.
	// Defaults to none.
	Store Store

	// Interval is the time between the end of a collection of Run and the next. Defaults to
	// DefaultInterval.
	Interval time.Duration

	// Events receives events for the node's operator. Defaults to a no-op.
	Events EventSink
	// OnRemoved is called right after the removal of an image. It must not block. Defaults to a
	// no-op.
	OnRemoved func(Removed)
	// OnPass is called at the end of every pass. Defaults to a no-op.
	OnPass func(Result, error)
	// Logger receives the logs of Run. Defaults to no logs.
	Logger *zap.Logger
}

// withDefaults returns o with defaults filled in, or an error naming the invalid field.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Images == nil:
		return Options{}, errors.New("imagegc: Options.Images is required")
	case o.InUse == nil:
		return Options{}, errors.New("imagegc: Options.InUse is required")
	case o.Disk == nil:
		return Options{}, errors.New("imagegc: Options.Disk is required")
	case o.Interval < 0:
		return Options{}, fmt.Errorf("imagegc: Options.Interval is negative: %s", o.Interval)
	}
	o.Interval = cmp.Or(o.Interval, DefaultInterval)
	var err error
	if o.Policy, err = o.Policy.withDefaults(); err != nil {
		return Options{}, err
	}
	if o.Events == nil {
		o.Events = EventFunc(func(string, string, string) {})
	}
	if o.OnRemoved == nil {
		o.OnRemoved = func(Removed) {}
	}
	if o.OnPass == nil {
		o.OnPass = func(Result, error) {}
	}
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	return o, nil
}
