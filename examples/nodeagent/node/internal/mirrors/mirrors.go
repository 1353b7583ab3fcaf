// SPDX-License-Identifier: Apache-2.0

// Package mirrors keeps a mirror pod on the API server for each static pod of the node, as the kubelet does.
package mirrors

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/mirror"
	"github.com/keelson-dev/keelson/statusmanager"
)

// Options configure the feature.
type Options struct {
	// Index pairs static pods with their mirror pods. Required.
	Index *mirror.Index
	// Pods returns a writer of mirror pods for one namespace. Required.
	Pods func(namespace string) mirror.Writer
	// Node returns the API server's object of this node, the owner of mirror pods. Required.
	Node func(ctx context.Context) (*v1.Node, error)
	// Told returns the status of a static pod for the mirror pod, or false without a status. Defaults to nil: no status is written.
	Told func(uid types.UID) (v1.PodStatus, bool)
}

// mirrors creates, replaces and deletes mirror pods in a separate goroutine, so that an unreachable
// API server delays no pod.
type mirrors struct {
	host   *feature.Host
	index  *mirror.Index
	told   func(types.UID) (v1.PodStatus, bool)
	client *mirror.Client
	wanted signal.Signal
	failed map[string]string // error text of the last attempt, by "namespace/name"
}

// Pause before the retry of a failed reconcile, and timeout of one request.
const (
	mirrorPause   = 5 * time.Second
	mirrorTimeout = 10 * time.Second
)

// New returns the feature.
func New(h *feature.Host, o Options) (feature.Feature, error) {
	m := &mirrors{host: h, index: o.Index, told: o.Told, wanted: signal.New(), failed: make(map[string]string)}
	client, err := mirror.NewClient(mirror.Config{Pods: o.Pods, Node: o.Node, Outlived: m.outlived})
	m.client = client
	return feature.Feature{
		Name: "mirrors",
		ConfigUpdated: func(u podconfig.Update) {
			if slices.ContainsFunc(u.Pods, func(p *v1.Pod) bool { return podconfig.IsStatic(p) || podconfig.IsMirror(p) }) {
				m.wanted.Notify()
			}
		},
		Published: func(pod *v1.Pod, _ v1.PodStatus) {
			if _, shown := m.index.Pair(pod); shown != nil && podconfig.IsStatic(pod) && m.outlived(pod, shown) {
				m.wanted.Notify()
			}
		},
		Ended:     func(*v1.Pod) { m.wanted.Notify() },
		Housekeep: func(func(types.UID) bool) { m.wanted.Notify() },
		Run:       m.run,
	}, err
}

func (m *mirrors) run(ctx context.Context) error {
	var next <-chan time.Time // nil without a failed request
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.wanted:
		case <-next:
		}
		if again := m.reconcile(ctx); !again.IsZero() {
			next = time.After(time.Until(again))
		}
	}
}

// reconcile writes the mirror pod of every static pod, and deletes the mirror pods of static pods
// that are gone. It returns the time of the next try, zero if every request succeeded.
func (m *mirrors) reconcile(ctx context.Context) (again time.Time) {
	tried := make(map[string]bool)
	for static, known := range m.index.Statics() {
		tried[static.Namespace+"/"+static.Name] = true
		if shown, _ := m.index.ByName(static.Namespace, static.Name); shown != static {
			continue // two sources list this name, and the mirror pod belongs to the other pod
		}
		again = retry.Earlier(again, m.try(ctx, static, func(ctx context.Context) error {
			_, err := m.client.Reconcile(ctx, static, known)
			return err
		}))
		if ctx.Err() != nil {
			return time.Time{}
		}
	}
	if !m.host.HasSourced() {
		return again
	}
	for orphan := range m.index.Orphans() {
		tried[orphan.Namespace+"/"+orphan.Name] = true
		one := func(yield func(*v1.Pod) bool) { yield(orphan) }
		again = retry.Earlier(again, m.try(ctx, orphan, func(ctx context.Context) error { return m.client.DeleteOrphans(ctx, one, m.busy) }))
	}
	maps.DeleteFunc(m.failed, func(name, _ string) bool { return !tried[name] })
	return again
}

// outlived reports whether a mirror pod shows the end of a container that waits or runs again: the
// static pod was removed and applied again, or another agent runs the pod again. The status of the
// static pod no longer shows this end.
func (m *mirrors) outlived(static, shown *v1.Pod) bool {
	if m.told == nil {
		return false
	}
	status, ok := m.told(static.UID)
	return ok && statusmanager.Revives(&static.Spec, &shown.Status, &status)
}

// busy reports whether the static pod of a mirror pod is still terminating. The last status of the
// static pod is then still to be written.
func (m *mirrors) busy(orphan *v1.Pod) bool {
	return m.host.Workers.IsPodForMirrorPodTerminatingByFullName(podconfig.FullName(orphan))
}

// try calls f once, and returns the time of the next try, zero if f succeeded. An error is logged if
// its text differs from the pod's error before.
func (m *mirrors) try(ctx context.Context, pod *v1.Pod, f func(context.Context) error) (again time.Time) {
	ctx, cancel := context.WithTimeout(ctx, mirrorTimeout)
	defer cancel()
	err, name := f(ctx), pod.Namespace+"/"+pod.Name
	switch {
	case err == nil:
		delete(m.failed, name)
	case m.failed[name] != err.Error():
		m.failed[name] = err.Error()
		m.host.Log.Warn("mirror pod is not up to date", feature.PodField(pod), zap.Error(err))
	}
	if budget, ok := errors.AsType[*mirror.BudgetError](err); ok {
		return budget.RetryAt
	}
	if err != nil {
		return time.Now().Add(mirrorPause)
	}
	return time.Time{}
}
