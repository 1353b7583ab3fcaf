// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The kubelet's delays (version 1.36), which are the defaults of Options.
const (
	DefaultResyncInterval   = time.Minute
	DefaultBackoff          = 10 * time.Second
	DefaultTransientBackoff = time.Second
)

// configSourceAnnotation names where a pod came from; configSourceAPI is its value for the API server. Any other value
// makes a static pod.
const (
	configSourceAnnotation = "kubernetes.io/config.source"
	configSourceAPI        = "api"
)

// Options configure Workers. Every func must be safe for concurrent use and is called without a lock held.
type Options struct {
	// Syncer does the work. Required. If it is also an OrphanSyncer, orphans can be ended.
	Syncer PodSyncer

	// ResyncInterval is the time between the end of a successful SyncPod and the next. Negative means never.
	// Defaults to DefaultResyncInterval.
	ResyncInterval time.Duration
	// Backoff is the time between the end of a failed call and the next. Defaults to DefaultBackoff.
	Backoff time.Duration
	// TransientBackoff is the same for an ErrTransient. Defaults to DefaultTransientBackoff.
	TransientBackoff time.Duration
	// Jitter spreads those delays, but not the time of a RetryAfter. A negative result counts as 0. Defaults to
	// adding up to half of the delay, evenly distributed.
	Jitter func(time.Duration) time.Duration

	// ExclusiveKey returns a key that only one started pod may hold at a time, or false for a pod that needs none
	// (an empty key counts as none). It is asked once per UID, when the pod is first seen. Defaults to namespaced
	// name of static pods, "name_namespace": those whose annotation kubernetes.io/config.source is present and not
	// "api".
	ExclusiveKey func(*v1.Pod) (key string, ok bool)
	// AlreadyStopped is asked about a pod that is first seen with phase Succeeded or Failed. True means that its
	// containers are known to have ended, from an observation made after the whole runtime was listed once; the pod
	// then goes straight to SyncTerminatedPod. False when in doubt. Defaults to never.
	AlreadyStopped func(types.UID) bool

	// OnSync is told of every finished call, before the next call for that UID begins. It must not block. Defaults
	// to nothing.
	OnSync func(SyncEvent)
	// Logger receives failed calls. Defaults to silence.
	Logger *zap.Logger
}

// withDefaults returns o with defaults filled in, or an error that names the field that cannot be used.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Syncer == nil:
		return o, errors.New("podworkers: Options.Syncer is required")
	case o.Backoff < 0:
		return o, fmt.Errorf("podworkers: Options.Backoff is negative: %s", o.Backoff)
	case o.TransientBackoff < 0:
		return o, fmt.Errorf("podworkers: Options.TransientBackoff is negative: %s", o.TransientBackoff)
	}
	if o.ResyncInterval == 0 {
		o.ResyncInterval = DefaultResyncInterval
	}
	if o.Backoff == 0 {
		o.Backoff = DefaultBackoff
	}
	if o.TransientBackoff == 0 {
		o.TransientBackoff = DefaultTransientBackoff
	}
	if o.Jitter == nil {
		o.Jitter = addUpToHalf
	}
	if o.ExclusiveKey == nil {
		o.ExclusiveKey = staticPodName
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o, nil
}

// addUpToHalf returns a delay evenly distributed in [d, 1.5 d).
func addUpToHalf(d time.Duration) time.Duration {
	return d + time.Duration(rand.Float64()*float64(d)/2)
}

// staticPodName returns the full name of a static pod.
func staticPodName(pod *v1.Pod) (string, bool) {
	source, ok := pod.Annotations[configSourceAnnotation]
	if !ok || source == configSourceAPI {
		return "", false
	}
	return pod.Name + "_" + pod.Namespace, true
}
