// SPDX-License-Identifier: Apache-2.0

package statusreport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/internal/signal"
)

// Report is the latest status of the pod with the given name.
type Report struct {
	types.NamespacedName
	UID types.UID
	// Status is the status, nil for a pod that does not exist any more. Do not change it.
	Status *v1.PodStatus
}

// Options configure Reports.
type Options struct {
	// Send sends a report. Only a single call runs at a time. After an error, the latest report of the
	// pod at that time is sent after a wait of 1 s, 2 s and so on up to a minute. Send must return at
	// the end of ctx, after 10 s at the latest. Required.
	Send func(ctx context.Context, r Report) error
	// MaxPods limits the number of waiting reports. If there are more, the report that has waited
	// longest is dropped. Defaults to 10,000.
	MaxPods int
	// Problem receives the first error of Send after a success, and nil after the next success. It must
	// not block. Defaults to no call.
	Problem func(error)
}

// Reports sends statuses. See the package comment.
type Reports struct {
	opts   Options
	notice signal.Signal
	ran    atomic.Bool

	mu struct {
		sync.Mutex
		waiting map[types.NamespacedName]Report
		order   []types.NamespacedName // the keys of waiting, oldest first
		dropped int
	}
}

// Waits after a failed call of Send.
const firstWait, longestWait = time.Second, time.Minute

// sendTimeout limits a call of Send.
const sendTimeout = 10 * time.Second

// New returns Reports. It starts nothing.
func New(o Options) (*Reports, error) {
	switch {
	case o.Send == nil:
		return nil, errors.New("statusreport: Options.Send is required")
	case o.MaxPods < 0:
		return nil, errors.New("statusreport: Options.MaxPods must not be negative")
	}
	o.MaxPods = cmp.Or(o.MaxPods, 10_000)
	if o.Problem == nil {
		o.Problem = func(error) {}
	}
	r := &Reports{opts: o, notice: signal.New()}
	r.mu.waiting = map[types.NamespacedName]Report{}
	return r, nil
}

// Set makes the status the next report of its pod. An older report that still waits is replaced. Set
// never blocks, and keeps no part of status. It fits node.Options.Status of the reference assembly.
func (r *Reports) Set(pod *v1.Pod, status v1.PodStatus) { r.put(pod, status.DeepCopy()) }

// Gone makes the end of the pod its next report. It fits the hook Ended of a feature of the reference
// assembly.
func (r *Reports) Gone(pod *v1.Pod) { r.put(pod, nil) }

func (r *Reports) put(pod *v1.Pod, status *v1.PodStatus) {
	r.wait(Report{types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.UID, status}, true)
}

// wait adds a report to the waiting reports. A fresh report replaces the waiting report of the pod.
// A report that is queued again after a failure (fresh is false) is dropped if the pod has a
// waiting report.
func (r *Reports) wait(report Report, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, has := r.mu.waiting[report.NamespacedName]
	switch {
	case has && !fresh:
		return
	case !has:
		r.mu.order = append(r.mu.order, report.NamespacedName)
	}
	r.mu.waiting[report.NamespacedName] = report
	for len(r.mu.waiting) > r.opts.MaxPods {
		delete(r.mu.waiting, r.mu.order[0])
		r.mu.order = r.mu.order[1:]
		r.mu.dropped++
	}
	r.notice.Notify()
}

// next takes the report that has waited longest.
func (r *Reports) next() (report Report, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.mu.order) == 0 {
		return Report{}, false
	}
	name := r.mu.order[0]
	r.mu.order = r.mu.order[1:]
	report = r.mu.waiting[name]
	delete(r.mu.waiting, name)
	return report, true
}

// Dropped returns how many reports were dropped because of Options.MaxPods.
func (r *Reports) Dropped() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.dropped
}

// Run sends reports until ctx ends, and then returns nil. Reports that wait at the end of ctx are not
// sent. Run can be called once.
func (r *Reports) Run(ctx context.Context) error {
	if r.ran.Swap(true) {
		return errors.New("statusreport: Run was called before")
	}
	failures := 0
	for ctx.Err() == nil {
		report, ok := r.next()
		if !ok {
			select {
			case <-r.notice:
			case <-ctx.Done():
			}
			continue
		}
		err := r.send(ctx, report)
		switch {
		case err == nil && failures > 0:
			failures = 0
			r.opts.Problem(nil)
		case err != nil && ctx.Err() == nil:
			r.wait(report, false)
			if failures++; failures == 1 {
				r.opts.Problem(fmt.Errorf("status of pod %s: %w", report.NamespacedName, err))
			}
			_ = retry.Sleep(ctx, retry.Backoff(failures, firstWait, longestWait, rand.Float64()))
		}
	}
	return nil
}

func (r *Reports) send(ctx context.Context, report Report) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return r.opts.Send(ctx, report)
}
