// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
)

// Errors of Client, besides ErrNode, podconfig.ErrFullName and the errors of the Writer.
var (
	// ErrConfig means an invalid Config; the error names the field.
	ErrConfig = errors.New("mirror: bad config")
	// ErrNotStatic: only static pods have mirror pods.
	ErrNotStatic = errors.New("mirror: not a static pod")
	// ErrNameTaken: an API pod with the static pod's name is not a mirror pod, or belongs to
	// another node. The API pod is left alone.
	ErrNameTaken = errors.New("mirror: name is taken by a pod that is not the node's mirror")
	// ErrBudget: the budget of the pod's name is used up. The error is a *BudgetError, and no
	// request was sent.
	ErrBudget = errors.New("mirror: too many requests for one mirror pod")
	// ErrUnsettled: other clients create or delete pods of the same name at the same time. Call
	// Reconcile again later.
	ErrUnsettled = errors.New("mirror: mirror pod keeps changing")
)

// Writer writes the mirror pods of a namespace. client-go's PodInterface implements it. Its methods
// may be called concurrently, return when ctx ends, and return apimachinery's api/errors for an API
// server's answers.
type Writer interface {
	Create(ctx context.Context, p *v1.Pod, o metav1.CreateOptions) (*v1.Pod, error)
	Get(ctx context.Context, name string, o metav1.GetOptions) (*v1.Pod, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
}

// Config configures a Client.
type Config struct {
	// Pods returns the writer of a namespace; with client-go:
	//
	//	func(namespace string) mirror.Writer { return clientset.CoreV1().Pods(namespace) }
	//
	// Nil for a node without an API server. All methods of the client then do nothing and succeed.
	Pods func(namespace string) Writer
	// Node returns the API server's object of this node, usually from a cache. The object is only
	// read. An error means that the node is not known yet. Required unless Pods is nil.
	Node func(ctx context.Context) (*v1.Node, error)
	// Outlived reports whether a correct mirror pod shows the end of an earlier life of the static
	// pod, which was removed and applied again. The API server does not undo the end of a
	// container, so the mirror pod is replaced. See statusmanager.Revives. Outlived may be called
	// with any mirror pod of the node. Defaults to nil: no mirror pod is outlived.
	Outlived func(static, mirror *v1.Pod) bool
}

// Client creates and deletes the mirror pods of a node. It has no goroutines, and remembers the
// budgets that are not full. It is safe for concurrent use with different pods.
type Client struct {
	pods     func(namespace string) Writer
	node     func(ctx context.Context) (*v1.Node, error)
	outlived func(static, mirror *v1.Pod) bool
	budgets  budgets
}

// NewClient returns a client. It sends no request.
func NewClient(c Config) (*Client, error) {
	if c.Pods != nil && c.Node == nil {
		return nil, fmt.Errorf("%w: Node is nil", ErrConfig)
	}
	if c.Outlived == nil {
		c.Outlived = func(_, _ *v1.Pod) bool { return false }
	}
	return &Client{pods: c.Pods, node: c.Node, outlived: c.Outlived}, nil
}

// Outcome is the outcome of Reconcile.
type Outcome uint8

// The outcomes. The zero Outcome is returned with an error.
const (
	// Kept: the mirror pod was already correct.
	Kept Outcome = iota + 1
	// Created: a mirror pod was missing and has been created.
	Created
	// Replaced: the old mirror pod was deleted and a new mirror pod created.
	Replaced
	// Waiting: no correct mirror pod exists, and Reconcile must wait. Either finalizers hold the
	// old mirror pod, or the node is being deleted.
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

// Reconcile makes the mirror pod of a static pod correct. It creates a missing mirror pod. It
// replaces a mirror pod that is being deleted, shows other content, or is Outlived. mirror is the
// known mirror pod, nil if unknown, and may be outdated. Neither pod is edited.
//
// Call Reconcile on every sync of the pod, and for every touched pod of Index.Apply, while the pod
// is in its source, even if it has ended or was not admitted. After an error, call Reconcile again
// at the next sync. An error wraps an error of this package, of Config.Node or of the Writer. For
// each name, five calls with requests are allowed, plus a call per 10 s, plus a call per change of
// the static pod. Further calls send no request and return a *BudgetError.
func (c *Client) Reconcile(ctx context.Context, static, mirror *v1.Pod) (Outcome, error) {
	if c.pods == nil {
		return Kept, nil
	}
	if !podconfig.IsStatic(static) || podconfig.IsMirror(static) {
		return 0, fmt.Errorf("%w: %s", ErrNotStatic, podconfig.FullName(static))
	}
	held := mirror != nil && mirror.DeletionTimestamp != nil && confirmed(mirror)
	if mirror != nil && !held && c.budgets.isGone(podconfig.FullName(static), mirror.UID) {
		mirror = nil
	}
	outcome := Created
	switch c.decide(static, mirror) {
	case stepNone:
		return Kept, nil
	case stepWait:
		return Waiting, nil
	case stepReplace:
		if err := c.budgets.charge(podconfig.FullName(static), wishOf(static), time.Now()); err != nil {
			return 0, err
		}
		// If the mirror is gone or replaced by now, create detects it.
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
	if outcome == Created {
		if err := c.budgets.charge(podconfig.FullName(static), wishOf(static), time.Now()); err != nil {
			return 0, err
		}
	}
	return c.create(ctx, static, p, outcome)
}

// wishOf returns a key of the static pod and its content: UID and hash.
func wishOf(static *v1.Pod) string { return string(static.UID) + "/" + hashOf(static) }

// decide returns the next step for a static pod and its mirror pod, nil if missing.
func (c *Client) decide(static, mirror *v1.Pod) step {
	next := decide(static, mirror)
	if next == stepNone && c.outlived(static, mirror) {
		return stepReplace
	}
	return next
}

// attempts is the number of creations tried in a call. The second attempt follows the removal of a
// wrong pod with the same name.
const attempts = 2

// create creates p. If the name is taken, create decides by the existing pod.
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
		// The object returned with this error is empty, so get the existing pod.
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
		switch c.decide(static, existing) {
		case stepNone:
			return Kept, nil
		case stepWait:
			return Waiting, nil
		}
		if _, err := c.delete(ctx, existing, &existing.UID); err != nil {
			return 0, err
		}
		outcome = Replaced
	}
	return 0, fmt.Errorf("%w: %s", ErrUnsettled, podconfig.FullName(static))
}

// Delete deletes the mirror pod of a full name at once. If uid is given, only a pod with the UID is
// deleted. Delete returns false if no such pod exists. An error wraps podconfig.ErrFullName or is
// the Writer's.
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

// DeleteOrphans deletes mirror pods without a static pod, as yielded by Index.Orphans, except while
// busy returns true for a pod that is still ending. A mirror pod replaced meanwhile stays. Call
// DeleteOrphans when all sources are ready. It continues after an error, and returns all errors
// joined.
func (c *Client) DeleteOrphans(ctx context.Context, orphans iter.Seq[*v1.Pod], busy func(mirror *v1.Pod) bool) error {
	if c.pods == nil {
		return nil
	}
	var errs []error
	for m := range orphans {
		held := m.DeletionTimestamp != nil && confirmed(m) // held by finalizers
		if held || c.budgets.isGone(podconfig.FullName(m), m.UID) || busy != nil && busy(m) {
			continue
		}
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		if err := c.budgets.charge(podconfig.FullName(m), "", time.Now()); err != nil {
			errs = append(errs, err)
			continue
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
	// A conflict is no proof that the pod is gone: an admission webhook may refuse the deletion so.
	if uid != nil && (err == nil || apierrors.IsNotFound(err)) {
		c.budgets.noteGone(podconfig.FullName(p), *uid)
	}
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("mirror: delete the mirror pod %s: %w", podconfig.FullName(p), err)
	}
	return true, nil
}
