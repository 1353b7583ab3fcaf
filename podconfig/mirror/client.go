// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"errors"
	"fmt"
	"iter"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
)

// Errors of Client beside ErrNode, podconfig.ErrFullName and those of the Writer.
var (
	// ErrConfig is a Config that cannot work; the error names the field.
	ErrConfig = errors.New("mirror: bad config")
	// ErrNotStatic: only static pods have mirrors.
	ErrNotStatic = errors.New("mirror: not a static pod")
	// ErrNameTaken: a pod that is no mirror, or is another node's, has the static pod's name in the API. It is left alone.
	ErrNameTaken = errors.New("mirror: name is taken by a pod that is not the node's mirror")
	// ErrUnsettled: others create or delete pods of the same name at the same time. Reconcile again later.
	ErrUnsettled = errors.New("mirror: mirror pod keeps changing")
)

// Writer is how mirror pods of one namespace are written. client-go's PodInterface is one as it is. Its methods may be
// called concurrently, end with ctx, and return errors of apimachinery's api/errors for what an API server says.
type Writer interface {
	Create(ctx context.Context, p *v1.Pod, o metav1.CreateOptions) (*v1.Pod, error)
	Get(ctx context.Context, name string, o metav1.GetOptions) (*v1.Pod, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
}

// Config of a Client.
type Config struct {
	// Pods returns the writer of a namespace; with client-go:
	//
	//	func(namespace string) mirror.Writer { return clientset.CoreV1().Pods(namespace) }
	//
	// Nil for a node without API server: then every method of the client does nothing and succeeds.
	Pods func(namespace string) Writer
	// Node returns the API server's object of this node, from a cache as a rule; it is read only. An error means that it is
	// not known yet. Required unless Pods is nil.
	Node func(ctx context.Context) (*v1.Node, error)
}

// Client keeps the mirror pods of one node. It has no goroutines and remembers nothing; it is safe for concurrent use,
// for different pods.
type Client struct {
	pods func(namespace string) Writer
	node func(ctx context.Context) (*v1.Node, error)
}

// NewClient returns a client. It sends nothing yet.
func NewClient(c Config) (*Client, error) {
	if c.Pods != nil && c.Node == nil {
		return nil, fmt.Errorf("%w: Node is nil", ErrConfig)
	}
	return &Client{pods: c.Pods, node: c.Node}, nil
}

// Outcome is what Reconcile found or did.
type Outcome uint8

// The outcomes. The zero Outcome comes with an error.
const (
	// Kept: the mirror was right already.
	Kept Outcome = iota + 1
	// Created: there was none, and now there is one.
	Created
	// Replaced: the old one was deleted, and a new one is there.
	Replaced
	// Waiting: there is no right mirror, and nothing can be done before something else happens: the REMOVE of the old one,
	// which finalizers hold; or the end of the node, which is being deleted.
	Waiting
)

// String returns the name of the outcome.
func (o Outcome) String() string {
	switch o {
	case Kept:
		return "kept"
	case Created:
		return "created"
	case Replaced:
		return "replaced"
	case Waiting:
		return "waiting"
	}
	return "unknown"
}

// Reconcile makes the mirror of a static pod right: created if there is none, deleted and created anew if it is being
// deleted or shows another content. mirror is what the node knows of it, nil if nothing; it may be out of date. Neither
// pod is edited.
//
// Call it on every sync of the pod, and for every one that Index.Apply returns as touched, as long as the pod is in its
// source, whether it runs, has ended, or was not admitted. After an error, call it again at the next sync; an error
// wraps those of this package, what Config.Node returned, or the Writer's.
func (c *Client) Reconcile(ctx context.Context, static, mirror *v1.Pod) (Outcome, error) {
	if c.pods == nil {
		return Kept, nil
	}
	if !podconfig.IsStatic(static) || podconfig.IsMirror(static) {
		return 0, fmt.Errorf("%w: %s", ErrNotStatic, podconfig.FullName(static))
	}
	outcome := Created
	switch Decide(static, mirror) {
	case StepNone:
		return Kept, nil
	case StepWait:
		return Waiting, nil
	case StepReplace:
		// That it is gone, or another one by now, is for create to find out.
		if _, err := c.delete(ctx, mirror, &mirror.UID); err != nil {
			return 0, err
		}
		outcome = Replaced
	}
	node, err := c.node(ctx)
	switch {
	case err != nil:
		return 0, fmt.Errorf("mirror: look up the node for the mirror pod of %s: %w", podconfig.FullName(static), err)
	case node != nil && node.DeletionTimestamp != nil:
		return Waiting, nil
	}
	p, err := New(static, node)
	if err != nil {
		return 0, fmt.Errorf("mirror: make the mirror pod of %s: %w", podconfig.FullName(static), err)
	}
	return c.create(ctx, static, p, outcome)
}

// attempts is how often a creation is tried in one call: again once it is known, and out of the way, what has the name.
const attempts = 2

// create creates p. If its name is taken, what has it decides.
func (c *Client) create(ctx context.Context, static, p *v1.Pod, outcome Outcome) (Outcome, error) {
	w := c.pods(p.Namespace)
	for range attempts {
		_, err := w.Create(ctx, p, metav1.CreateOptions{})
		if err == nil {
			return outcome, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return 0, fmt.Errorf("mirror: create the mirror pod of %s: %w", podconfig.FullName(static), err)
		}
		// The object that comes with this error is empty, so who has the name must be asked.
		existing, err := w.Get(ctx, p.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("mirror: look up the mirror pod of %s: %w", podconfig.FullName(static), err)
		}
		if !podconfig.IsMirror(existing) || existing.Spec.NodeName != static.Spec.NodeName {
			return 0, fmt.Errorf("%w: %s", ErrNameTaken, podconfig.FullName(static))
		}
		switch Decide(static, existing) {
		case StepNone:
			return Kept, nil
		case StepWait:
			return Waiting, nil
		}
		if _, err := c.delete(ctx, existing, &existing.UID); err != nil {
			return 0, err
		}
		outcome = Replaced
	}
	return 0, fmt.Errorf("%w: %s", ErrUnsettled, podconfig.FullName(static))
}

// Delete deletes the mirror pod of a full name, at once and, if uid is given, only the one of that UID. It returns false
// if there is none: then nothing was deleted. An error wraps podconfig.ErrFullName or is the Writer's.
func (c *Client) Delete(ctx context.Context, fullName string, uid *types.UID) (bool, error) {
	if c.pods == nil {
		return false, nil
	}
	name, namespace, err := podconfig.ParseFullName(fullName)
	if err != nil {
		return false, fmt.Errorf("mirror: delete a mirror pod: %w", err)
	}
	return c.delete(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}, uid)
}

// DeleteOrphans deletes mirror pods whose static pods are gone, as Index.Orphans yields them, but for those whose pods
// busy says are still ending. A mirror that is another one by now stays. Call it when all sources are ready. It goes on
// after an error, and returns all of them joined.
func (c *Client) DeleteOrphans(ctx context.Context, orphans iter.Seq[*v1.Pod], busy func(mirror *v1.Pod) bool) error {
	if c.pods == nil {
		return nil
	}
	var errs []error
	for m := range orphans {
		held := m.DeletionTimestamp != nil && confirmed(m) // by finalizers
		if held || busy != nil && busy(m) {
			continue
		}
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		if _, err := c.delete(ctx, m, &m.UID); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (c *Client) delete(ctx context.Context, p *v1.Pod, uid *types.UID) (bool, error) {
	o := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	if uid != nil {
		o.Preconditions = &metav1.Preconditions{UID: uid}
	}
	err := c.pods(p.Namespace).Delete(ctx, p.Name, o)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("mirror: delete the mirror pod %s: %w", podconfig.FullName(p), err)
	}
	return true, nil
}
