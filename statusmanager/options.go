// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"cmp"
	"fmt"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/retry"
)

// DefaultWorkers is the default of Options.Workers.
const DefaultWorkers = 10

const (
	// RequestTimeout is the longest duration of a request. After a twentieth of RequestTimeout, a
	// request is overdue, and is cancelled if troubled pods already use their share of the workers.
	RequestTimeout = 10 * time.Second
	// MaxBackoff is the longest back-off of a pod, and the time between two requests for a pod
	// without news.
	MaxBackoff = 10 * time.Second

	// initialBackoff is the wait of a pod after a failed request; the wait doubles up to
	// MaxBackoff. A longer delay requested by the server is respected, up to one minute. A new
	// status ends the wait, and the time begins anew.
	initialBackoff = 500 * time.Millisecond
	// rejectedDelay is how long a pod waits after the server refused a status as invalid or
	// forbidden. A new status ends the wait.
	rejectedDelay = time.Minute
	// ageing is the time after which a write waiting behind more urgent writes gets a share of the
	// turns.
	ageing = 2 * time.Second
	// resyncInterval is the time between passes over the pods that wait for something: a pod that is
	// now safe to end, or that reappeared on the server.
	resyncInterval = time.Minute
)

// Options configure a Manager. Every func and seam must be safe for concurrent use and is called
// without a lock held.
type Options struct {
	// Patcher writes to the API server. If the Patcher is also a Getter, the Manager calls GetPod
	// for unknown pods. Defaults to nil: statuses are stored and returned, but not written.
	Patcher Patcher
	// Pods is a cache of the API server's pods. Pods saves GET requests for unknown pods, and
	// provides mirror pods; calls of Observed have the same effect. Defaults to nil.
	Pods Pods
	// Safety reports when a pod may be reported as ended, and deleted. By default, containers may
	// run until TerminatePod was called or the status shows no running container.
	Safety Safety

	// Workers is how many pods are written at a time. Pods with failing or hanging requests use at
	// most half of the workers, but at least one. With fewer than five workers, hanging pods may
	// delay other pods. Defaults to DefaultWorkers.
	Workers int
	// Jitter spreads every delay; a negative result counts as 0. Defaults to adding up to half,
	// evenly distributed.
	Jitter func(time.Duration) time.Duration
	// Drain is how long Run continues to write due statuses after its context ended, the most
	// urgent first. Defaults to 0: requests in flight are cancelled.
	Drain time.Duration

	// Resync is the time between passes over all pods, in whole minutes. A pass finds unobserved
	// changes in Pods. An owner that passes each object of Pods to Observed can let it be long. Defaults
	// to one minute.
	Resync time.Duration

	// Coalesce returns how long a change may be held back, so that the next one can join it; 0 or
	// less writes the change at once, together with held changes. A hold is never prolonged by
	// later changes, and the end of a pod is never held back. CoalesceInit returns such a func.
	// Defaults to never.
	Coalesce func(Change) time.Duration
	// OnChange is called for every accepted status. Calls for one pod from different goroutines may
	// come out of order; Change.Version gives the order. Defaults to nothing.
	OnChange func(Change)
	// OnRequest is called for every finished request to the API server. Defaults to nothing.
	OnRequest func(RequestEvent)
	// Logger receives failed requests. Defaults to silence.
	Logger *zap.Logger
}

// Change describes an accepted status. The pointers are shared: do not write through them.
type Change struct {
	// Pod is the pod passed by the caller.
	Pod *v1.Pod
	// Old is the status before; nil for the first.
	Old *v1.PodStatus
	// New is the accepted status, as returned by GetPodStatus.
	New *v1.PodStatus
	// Version counts the statuses of the pod, from 1.
	Version uint64
}

// withDefaults returns o with defaults filled in, or an error that names the invalid field.
func (o Options) withDefaults() (Options, error) {
	if o.Workers < 0 {
		return Options{}, fmt.Errorf("statusmanager: Options.Workers is negative: %d", o.Workers)
	}
	o.Workers = cmp.Or(o.Workers, DefaultWorkers)
	if o.Drain < 0 {
		return Options{}, fmt.Errorf("statusmanager: Options.Drain is negative: %s", o.Drain)
	}
	if o.Resync < 0 {
		return Options{}, fmt.Errorf("statusmanager: Options.Resync is negative: %s", o.Resync)
	}
	o.Resync = cmp.Or(o.Resync, resyncInterval)
	if o.Jitter == nil {
		o.Jitter = retry.AddUpToHalf
	}
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	return o, nil
}
