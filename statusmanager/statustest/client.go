// SPDX-License-Identifier: Apache-2.0

package statustest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/statusmanager"
)

// Client is the connection of a single client, such as a node, to a Server. Beside the requests of a
// statusmanager.Patcher and Getter, it lists and watches pods as podconfig/podwatch does.
type Client struct {
	server *Server
	lag    time.Duration

	mu struct {
		sync.Mutex
		err     error // of each request while the connection is cut
		streams map[*stream]bool
	}
}

var (
	_ statusmanager.Patcher = (*Client)(nil)
	_ statusmanager.Getter  = (*Client)(nil)
	_ statusmanager.Setter  = (*Client)(nil)
)

// NewClient returns a Client whose watches show a change after the duration lag.
func (s *Server) NewClient(lag time.Duration) *Client {
	c := &Client{server: s, lag: max(0, lag)}
	c.mu.streams = map[*stream]bool{}
	return c
}

// errCut is the default error of a cut connection.
var errCut = fmt.Errorf("statustest: the connection is cut: %w", syscall.ECONNREFUSED)

// Cut makes each request of the client fail with err, by default a refused connection, and ends the
// client's watches. Requests in progress are carried out. Mend ends the failure.
func (c *Client) Cut(err error) {
	if err == nil {
		err = errCut
	}
	c.mu.Lock()
	c.mu.err = err
	c.mu.Unlock()
	c.EndWatches()
}

// Mend ends the effect of Cut.
func (c *Client) Mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.err = nil
}

// EndWatches ends the client's watches. The client may watch again from its last resource version.
func (c *Client) EndWatches() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.mu.streams {
		s.cancel(nil)
	}
}

// connected returns the error of a request that begins now.
func (c *Client) connected() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.err
}

// PatchStatus is Server.PatchStatus.
func (c *Client) PatchStatus(ctx context.Context, ref statusmanager.PodRef, patch []byte) (*v1.Pod, error) {
	if err := c.connected(); err != nil {
		return nil, err
	}
	return c.server.PatchStatus(ctx, ref, patch)
}

// SetStatus implements statusmanager.Setter. The Server encodes the patch only for its journal, and after
// other changes of the pod.
func (c *Client) SetStatus(ctx context.Context, ref statusmanager.PodRef, p statusmanager.Patch) (*v1.Pod, error) {
	if err := c.connected(); err != nil {
		return nil, err
	}
	return c.server.set(ctx, ref, p)
}

// DeletePod is Server.DeletePod.
func (c *Client) DeletePod(ctx context.Context, ref statusmanager.PodRef) error {
	if err := c.connected(); err != nil {
		return err
	}
	return c.server.DeletePod(ctx, ref)
}

// GetPod is Server.GetPod.
func (c *Client) GetPod(ctx context.Context, ref statusmanager.PodRef) (*v1.Pod, error) {
	if err := c.connected(); err != nil {
		return nil, err
	}
	return c.server.GetPod(ctx, ref)
}

// List returns the pods that o.FieldSelector selects, sorted by namespace and name, in a single page.
// The selector is empty, or "spec.nodeName=" and the name of a node.
func (c *Client) List(ctx context.Context, o metav1.ListOptions) (*v1.PodList, error) {
	node, err := c.begin(ctx, &o)
	if err != nil {
		return nil, err
	}
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: s.resourceVersion()}}
	for _, pod := range s.feed(node).sorted() {
		list.Items = append(list.Items, *pod)
	}
	return list, nil
}

// Watch reports the changes of the pods that o.FieldSelector selects, as an API server does: from a
// resource version on, or with the present pods at first. A version older than the kept history is
// an event with the error 410. The watch ends after o.TimeoutSeconds, with a bookmark.
func (c *Client) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	node, err := c.begin(ctx, &o)
	if err != nil {
		return nil, err
	}
	return c.open(ctx, node, &o)
}

// begin starts a list or a watch, and returns the node of its selector, "" for all pods.
func (c *Client) begin(ctx context.Context, o *metav1.ListOptions) (node string, err error) {
	if err := retry.Sleep(ctx, c.server.options.Latency); err != nil {
		return "", err
	}
	if err := c.connected(); err != nil {
		return "", err
	}
	selector, err := fields.ParseSelector(o.FieldSelector)
	if err != nil {
		return "", apierrors.NewBadRequest(err.Error())
	}
	node, found := selector.RequiresExactMatch("spec.nodeName")
	if o.LabelSelector != "" || !selector.Empty() && (!found || len(selector.Requirements()) > 1) {
		return "", apierrors.NewBadRequest(fmt.Sprintf("statustest selects pods by spec.nodeName only, and not by %q, %q",
			o.FieldSelector, o.LabelSelector))
	}
	return node, nil
}

// expired returns the error of a watch from a revision that is not kept any more.
func expired(from, kept int) *metav1.Status {
	err := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, kept))
	status := err.Status()
	return &status
}

// errStopped is the cause of the end of a watch that its client has stopped.
var errStopped = errors.New("statustest: the watch was stopped")
