// SPDX-License-Identifier: Apache-2.0

package podwatch

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/internal/lifecycle"
	"github.com/keelson-dev/keelson/internal/retry"
)

// client wraps the API server for the reflector. It selects the node's pods, limits the duration of
// every request and reports failures. It also hides errors for which the reflector would retry
// without a pause or wait without an end.
type client struct {
	pods     PodListWatcher
	node     string                    // empty with nodes
	nodes    func(types.NodeName) bool // nil with node
	selector string
	noStream bool
	report   *reporter

	// The reflector's goroutine owns all fields below except mu. A list or stream goroutine owns
	// them while the reflector waits for it.

	// current is the last stream, or nil.
	current *stream
	// refused is the error of a failed watch-list for which the following list is skipped, because
	// the list would fail with the same error.
	refused error
	// stale counts consecutive watch-lists with a resource version unknown to the server.
	stale int
	// short counts consecutive watches that ended within standing.
	short int
	// notBefore is the earliest time to open the next watch after a short watch.
	notBefore time.Time

	lists lifecycle.Calls // the reflector lists in goroutines, and does not wait for their end
}

var (
	_ cache.ListerWatcher            = (*client)(nil)
	_ cache.ListerWatcherWithContext = (*client)(nil)
)

func newClient(c Config, report *reporter) *client {
	selector := fields.OneTermEqualSelector("spec.nodeName", string(c.NodeName))
	switch {
	case c.Nodes != nil && c.Nodes(""):
		selector = fields.Everything()
	case c.Nodes != nil:
		selector = fields.OneTermNotEqualSelector("spec.nodeName", "")
	}
	return &client{pods: c.Pods, node: string(c.NodeName), nodes: c.Nodes, noStream: c.WithoutWatchList, report: report,
		selector: selector.String()}
}

// IsWatchListSemanticsUnSupported is called by client-go's reflector.
func (c *client) IsWatchListSemanticsUnSupported() bool { return c.noStream }

// close waits until no list and no watch is running, and prevents further lists. It must be called
// after the reflector has returned. The reflector stops its watches, except a watch whose initial
// events the sink refused.
func (c *client) close() {
	if c.current != nil {
		c.current.Stop()
	}
	c.lists.Close()
}

// List is ListWithContext without a context. The reflector does not call it.
func (c *client) List(o metav1.ListOptions) (runtime.Object, error) {
	return c.ListWithContext(context.Background(), o)
}

// Watch is WatchWithContext without a context. The reflector does not call it.
func (c *client) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return c.WatchWithContext(context.Background(), o)
}

// ListWithContext returns a page of the list.
func (c *client) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if !c.lists.Begin() {
		return nil, context.Canceled
	}
	defer c.lists.End()
	if err := c.refused; err != nil {
		c.refused = nil
		c.report.failed(problem(verbList, err))
		return nil, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, requestTimeout, clientkit.TimeoutError{After: requestTimeout})
	defer cancel()
	o.FieldSelector = c.selector
	list, err := c.pods.List(limited, o)
	if err == nil && (list == nil || list.ResourceVersion == "") {
		err = clientkit.ErrBadAnswer // client-go decodes any JSON object as a list, usually an empty list
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && limited.Err() != nil:
		err = context.Cause(limited)
	case err == nil:
		c.stale = 0
		c.report.works(verbList)
		list.Items = slices.DeleteFunc(list.Items, func(p v1.Pod) bool { return !c.ours(verbList, &p) })
		return list, nil
	}
	c.report.failed(problem(verbList, err))
	return nil, err
}

// ours reports whether p belongs to the node, or to one of the nodes. It guards against servers and proxies that ignore the
// field selector, because running the pods of all nodes would be the worst possible failure.
func (c *client) ours(verb string, p *v1.Pod) bool {
	if c.nodes != nil {
		return c.nodes(types.NodeName(p.Spec.NodeName))
	}
	if p.Spec.NodeName == c.node {
		return true
	}
	c.report.failed(&Error{Verb: verb, Reason: clientkit.BadAnswer, Err: errOtherNode})
	return false
}

// WatchWithContext opens a watch, or a watch-list.
func (c *client) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if !c.notBefore.IsZero() {
		_ = retry.Sleep(ctx, time.Until(c.notBefore))
	}
	initial := o.SendInitialEvents != nil && *o.SendInitialEvents
	s := newStream(c, initial, c.lifetime(o))
	o.FieldSelector = c.selector
	err := s.open(ctx, o)
	switch {
	case err == nil:
		c.current = s
		return s, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case initial:
		return nil, c.unstreamed(err)
	}
	c.report.failed(problem(verbWatch, err))
	return nil, err
}

// lifetime returns the maximum duration of a watch. A healthy server ends a watch earlier, after
// the requested timeout.
func (c *client) lifetime(o metav1.ListOptions) time.Duration {
	if o.TimeoutSeconds == nil {
		return requestTimeout
	}
	return time.Duration(*o.TimeoutSeconds)*time.Second + requestTimeout
}

// unstreamed returns the error to pass to the reflector for a failed watch-list. The reflector
// retries without a pause if the resource version is gone. It waits up to a minute, regardless of
// ctx, if the server refuses. Otherwise it lists. With the returned error, the reflector retries
// once for a stale version and otherwise lists. A list after a refusal is not sent, and fails with
// the same error.
func (c *client) unstreamed(err error) error {
	switch {
	case isStale(err):
		if c.stale++; c.stale == 1 {
			return err
		}
	case errors.Is(err, syscall.ECONNREFUSED), apierrors.IsTooManyRequests(err):
		c.refused = err
	}
	return errUnstreamed
}

// errUnstreamed is an error without a meaning for the reflector.
var errUnstreamed = errors.New("no watch-list")

// isStale reports whether the server lacks the requested resource version.
func isStale(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
