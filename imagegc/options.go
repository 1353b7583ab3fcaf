// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// The defaults of Options; the kubelet's (version 1.36), but for the last.
const (
	DefaultInterval       = 5 * time.Minute
	DefaultDetectInterval = 5 * time.Minute
	DefaultListInterval   = 30 * time.Second
	DefaultCallTimeout    = 2 * time.Minute
)

// Options configure a Collector. Every func is called without a lock held.
type Options struct {
	// Images are the runtime's. Required.
	Images ImageService
	// InUse tells which images are needed. Required.
	InUse InUse
	// Disk measures the file system that images are on. Required.
	Disk DiskUsage

	// Policy says which images may go, and when. Defaults to the kubelet's.
	Policy Policy
	// DryRun makes every pass stop after its plan: nothing is removed, saved, or told to AfterGC and Events.
	DryRun bool
	// Store keeps ages over a restart. Defaults to none: a new collector sees every image for the first time.
	Store Store
	// AfterGC is told after every pass which images there are, read after the last removal, and when the pass began.
	// It is for what is kept per image outside the runtime, such as pull records: drop one if its image is not present
	// and the record is older than started. It is not called if nobody can say what is present. Its error is part of
	// the pass's. Defaults to nothing.
	AfterGC func(ctx context.Context, present []Image, started time.Time) error

	// Interval is the time from the end of one collection of Run to the next. Defaults to DefaultInterval.
	Interval time.Duration
	// DetectInterval is the longest time that Run lets pass without looking which images are new and which are used.
	// Every collection looks, too. Defaults to DefaultDetectInterval.
	DetectInterval time.Duration
	// ListInterval is how often Run refreshes GetImageList. Defaults to DefaultListInterval.
	ListInterval time.Duration
	// CallTimeout is how long one call to Images, InUse, Disk or Store may take. Defaults to DefaultCallTimeout.
	CallTimeout time.Duration

	// Events receives what whoever looks after the node should know. Defaults to nothing.
	Events EventSink
	// OnRemoved is told of every image that was removed, at once. It must not block. Defaults to nothing.
	OnRemoved func(Removed)
	// OnPass is told of every pass at its end. Defaults to nothing.
	OnPass func(Result, error)
	// Logger receives what Run does. Defaults to silence.
	Logger *zap.Logger
}

// withDefaults returns o with defaults filled in, or an error that names the field that cannot be used.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Images == nil:
		return o, errors.New("imagegc: Options.Images is required")
	case o.InUse == nil:
		return o, errors.New("imagegc: Options.InUse is required")
	case o.Disk == nil:
		return o, errors.New("imagegc: Options.Disk is required")
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{
		{"Interval", &o.Interval, DefaultInterval},
		{"DetectInterval", &o.DetectInterval, DefaultDetectInterval},
		{"ListInterval", &o.ListInterval, DefaultListInterval},
		{"CallTimeout", &o.CallTimeout, DefaultCallTimeout},
	} {
		if *d.value < 0 {
			return o, fmt.Errorf("imagegc: Options.%s is negative: %s", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	var err error
	if o.Policy, err = o.Policy.withDefaults(); err != nil {
		return o, err
	}
	if o.AfterGC == nil {
		o.AfterGC = func(context.Context, []Image, time.Time) error { return nil }
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
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o, nil
}
