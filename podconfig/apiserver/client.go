// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// client is the reflector's view of the server: it selects the node's pods, bounds every request in time, reports what
// fails, and keeps from the reflector what makes it wait for nothing or without end.
type client struct {
	pods     PodListWatcher
	node     string
	selector string
	timeout  time.Duration
	noStream bool
	report   *reporter

	// All below but mu is owned by the reflector's goroutine, and by that of a list or stream while it waits for them.

	// current is the last stream; nil if there was none.
	current *stream
	// refused is why a watch-list failed that need not be followed by a list, which would fail like it.
	refused error
	// stale counts the watch-lists in a row whose resource version the server did not have.
	stale int
	// notBefore is when a watch may be opened again after one that did not last.
	notBefore time.Time

	mu struct {
		sync.Mutex
		closed  bool
		running sync.WaitGroup // lists
	}
}

var (
	_ cache.ListerWatcher            = (*client)(nil)
	_ cache.ListerWatcherWithContext = (*client)(nil)
)

func newClient(c Config, report *reporter) *client {
	return &client{pods: c.Pods, node: string(c.NodeName), timeout: c.Timeout, noStream: c.WithoutWatchList, report: report,
		selector: fields.OneTermEqualSelector("spec.nodeName", string(c.NodeName)).String()}
}

// IsWatchListSemanticsUnSupported is how client-go's reflector asks.
func (c *client) IsWatchListSemanticsUnSupported() bool { return c.noStream }

// begin tells whether a list may still begin: the reflector begins it in a goroutine that it does not wait for.
func (c *client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return false
	}
	c.mu.running.Add(1)
	return true
}

// close returns when no list and no watch is running, and no list can begin. The reflector has returned by then; it
// stops its watches, but for one whose first events the sink refused.
func (c *client) close() {
	if c.current != nil {
		c.current.Stop()
	}
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.mu.running.Wait()
}

// List is ListWithContext without a context; the reflector does not call it.
func (c *client) List(o metav1.ListOptions) (runtime.Object, error) {
	return c.ListWithContext(context.Background(), o)
}

// Watch is WatchWithContext without a context; the reflector does not call it.
func (c *client) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return c.WatchWithContext(context.Background(), o)
}

// ListWithContext returns one page.
func (c *client) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if !c.begin() {
		return nil, context.Canceled
	}
	defer c.mu.running.Done()
	if err := c.refused; err != nil {
		c.refused = nil
		c.report.failed(problem(VerbList, err))
		return nil, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, c.timeout, timeoutError{c.timeout})
	defer cancel()
	o.FieldSelector = c.selector
	list, err := c.pods.List(limited, o)
	if err == nil && (list == nil || list.ResourceVersion == "") {
		err = errBadAnswer // client-go reads any JSON object as a list, and most of them as an empty one
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && limited.Err() != nil:
		err = context.Cause(limited)
	case err == nil:
		c.stale = 0
		c.report.works(VerbList)
		list.Items = slices.DeleteFunc(list.Items, func(p v1.Pod) bool { return !c.ours(VerbList, &p) })
		return list, nil
	}
	c.report.failed(problem(VerbList, err))
	return nil, err
}

// ours guards against servers and proxies that do not know the field selector: running the pods of all nodes would be
// the worst a node can do.
func (c *client) ours(verb Verb, p *v1.Pod) bool {
	if p.Spec.NodeName == c.node {
		return true
	}
	c.report.failed(&Error{Verb: verb, Reason: ReasonBadAnswer, Err: errOtherNode})
	return false
}

// WatchWithContext opens a watch, or a watch-list.
func (c *client) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if !c.notBefore.IsZero() {
		pause(ctx, time.Until(c.notBefore))
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
	c.report.failed(problem(VerbWatch, err))
	return nil, err
}

// lifetime is how long a watch may last: the server ends it by itself after what is asked for, if it is alive.
func (c *client) lifetime(o metav1.ListOptions) time.Duration {
	if o.TimeoutSeconds == nil {
		return c.timeout
	}
	return time.Duration(*o.TimeoutSeconds)*time.Second + c.timeout
}

// unstreamed decides what the reflector does about a watch-list that failed. It tries again, without any wait, if the
// error says that the resource version is gone; it waits for up to a minute, ctx or not, if the server refuses; and
// lists in all other cases. Here it gets to try again once, and to list otherwise. A server that refuses gets no list,
// which then fails with the same error.
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

// errUnstreamed is an error the reflector knows nothing about.
var errUnstreamed = errors.New("no watch-list")

// isStale tells whether the server does not have the state that was asked for.
func isStale(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
