// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"go.uber.org/zap"
)

// Nodes writes nodes. client-go's NodeInterface is one.
type Nodes interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*v1.Node, error)
	Create(ctx context.Context, node *v1.Node, opts metav1.CreateOptions) (*v1.Node, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*v1.Node, error)
}

// Leases writes the leases of v1.NamespaceNodeLease. client-go's LeaseInterface
// for that namespace is one.
type Leases interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*coordinationv1.Lease, error)
	Create(ctx context.Context, lease *coordinationv1.Lease, opts metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

// Times, all the kubelet's defaults but RequestTimeout, which there is as long as
// the client's.
const (
	// Interval is the time between two looks at the facts.
	Interval = 10 * time.Second
	// ReportInterval is how old a status may be that has not changed.
	ReportInterval = 5 * time.Minute
	// CheckInterval is how often the node is read, for what others made of it: a
	// controller that took it for dead, say.
	CheckInterval = time.Minute
	// LeaseDuration is for how long a lease is good, LeaseInterval how often it is
	// renewed.
	LeaseDuration, LeaseInterval = 40 * time.Second, 10 * time.Second
	// RequestTimeout is how long one request may take.
	RequestTimeout = 10 * time.Second
	// startInterval is Interval until the node was ready once, but no longer than
	// startPatience.
	startInterval, startPatience = time.Second, 2 * time.Minute
	minBackoff, maxBackoff       = 100 * time.Millisecond, 7 * time.Second
)

// Options configure a Reporter.
type Options struct {
	// NodeName is the node's name, a DNS-1123 subdomain. Required.
	NodeName string
	// Nodes writes the node. Required.
	Nodes Nodes
	// Leases writes its lease. Defaults to none: the status alone shows that the
	// node lives, every five minutes, which is too rarely for the defaults of
	// Kubernetes' controllers.
	Leases Leases
	// Facts returns what the node is now. Required.
	Facts func(ctx context.Context) Facts
	// Labels are put on the node, beside kubernetes.io/hostname, os and arch.
	// Labels of others stay.
	Labels map[string]string
	// Taints are put on the node when it is made, and not on one that is there.
	Taints []v1.Taint
	// Events receives events about the node; client-go's recorder fits. Defaults to
	// none.
	Events EventRecorder
	// Logger receives the log. Defaults to none.
	Logger *zap.Logger
}

// ErrOptions is what the errors of New wrap.
var ErrOptions = errors.New("nodestatus: wrong options")

// Reporter writes a node. Its methods but Poke are for one goroutine.
type Reporter struct {
	opts   Options
	log    *zap.Logger
	ran    atomic.Bool
	poked  chan struct{}
	leases *renewer // nil = none

	known    *v1.Node // as the server had it; nil = unknown
	seen     time.Time
	stale    atomic.Bool // known may be wrong
	reported time.Time
	held     held
	failing  bool
}

// New returns a Reporter. An error names the option that is wrong.
func New(o Options) (*Reporter, error) {
	switch {
	case len(validation.IsDNS1123Subdomain(o.NodeName)) > 0:
		return nil, fmt.Errorf("%w: NodeName %q: %s", ErrOptions, o.NodeName, validation.IsDNS1123Subdomain(o.NodeName)[0])
	case o.Nodes == nil:
		return nil, fmt.Errorf("%w: Nodes is required", ErrOptions)
	case o.Facts == nil:
		return nil, fmt.Errorf("%w: Facts is required", ErrOptions)
	}
	for key, value := range o.Labels {
		if len(validation.IsQualifiedName(key))+len(validation.IsValidLabelValue(value)) > 0 {
			return nil, fmt.Errorf("%w: Labels: %s=%s is no label", ErrOptions, key, value)
		}
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	labels := map[string]string{}
	maps.Copy(labels, o.Labels)
	maps.Copy(labels, map[string]string{
		v1.LabelHostname: o.NodeName, v1.LabelOSStable: runtime.GOOS, v1.LabelArchStable: runtime.GOARCH,
	})
	o.Labels = labels
	r := &Reporter{opts: o, log: o.Logger, poked: make(chan struct{}, 1), held: held{}}
	if o.Leases != nil {
		r.leases = newRenewer(o.NodeName, o.Leases, r.doubt, o.Logger)
	}
	return r, nil
}

// Poke has the facts looked at soon. It may be called from anywhere, also before
// Run.
func (r *Reporter) Poke() {
	select {
	case r.poked <- struct{}{}:
	default:
	}
}

// doubt has the node read before it is written next, and that soon.
func (r *Reporter) doubt() {
	r.stale.Store(true)
	r.Poke()
}

// Run writes the node until ctx ends; then it returns nil. It can be called once.
func (r *Reporter) Run(ctx context.Context) error {
	if r.ran.Swap(true) {
		return errors.New("nodestatus: Run was called before")
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	registered := make(chan types.UID, 1)
	if r.leases != nil {
		wg.Go(func() { r.leases.run(ctx, registered) })
	}
	start, pause := time.Now(), minBackoff
	told := types.UID("")
	for ctx.Err() == nil {
		wait := Interval
		if err := r.Report(ctx); err != nil {
			wait, pause = min(pause, Interval), min(2*pause, maxBackoff)
			r.failed(ctx, err)
		} else {
			pause = minBackoff
			r.succeeded()
			if !r.ready() && time.Since(start) < startPatience {
				wait = startInterval
			}
		}
		if r.known != nil && r.known.UID != told {
			told = r.known.UID
			select {
			case <-registered: // a node before this one, of which nobody has heard
			default:
			}
			registered <- told
		}
		sleep(ctx, wait, r.poked)
	}
	return nil
}

func (r *Reporter) failed(ctx context.Context, err error) {
	if ctx.Err() == nil && !r.failing {
		r.log.Warn("cannot tell the API server how this node is; trying on", zap.Error(err))
		r.failing = true
	}
}

func (r *Reporter) succeeded() {
	if r.failing {
		r.log.Info("the API server knows again how this node is")
		r.failing = false
	}
}

func (r *Reporter) ready() bool {
	for _, c := range r.known.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// Report is the step that Run repeats: it registers the node unless the server is
// known to have it, and writes its status if that has changed or is old.
func (r *Reporter) Report(ctx context.Context) error {
	if err := r.check(ctx); err != nil {
		return fmt.Errorf("read node %s: %w", r.opts.NodeName, err)
	}
	if r.known == nil {
		if err := r.register(ctx); err != nil {
			return fmt.Errorf("register node %s: %w", r.opts.NodeName, err)
		}
	}
	now, facts := time.Now(), r.opts.Facts(ctx)
	after := status(r.known.Status, facts, r.held.hold(facts.Usage.pressures(), now), now)
	if same(r.known.Status, after) && !r.reported.IsZero() && now.Sub(r.reported) < ReportInterval {
		return nil
	}
	patch, err := statusPatch(r.known.Status, after)
	if err != nil {
		return fmt.Errorf("status of node %s: %w", r.opts.NodeName, err)
	}
	node, err := r.patch(ctx, types.StrategicMergePatchType, patch, "status")
	switch {
	case apierrors.IsNotFound(err): // somebody deleted it
		r.known = nil
		return fmt.Errorf("node %s is gone: %w", r.opts.NodeName, err)
	case err != nil:
		return fmt.Errorf("status of node %s: %w", r.opts.NodeName, err)
	}
	if node.UID != r.known.UID { // deleted, and made again by somebody else
		r.log.Info("the node was made anew by somebody else")
	}
	r.tell(r.known.Status.Conditions, after.Conditions)
	r.know(node)
	r.reported = now
	return nil
}

// register makes the node, or gives the one that is there its labels.
func (r *Reporter) register(ctx context.Context) error {
	node, err := request(ctx, func(ctx context.Context) (*v1.Node, error) {
		return r.opts.Nodes.Create(ctx, r.fresh(), metav1.CreateOptions{})
	})
	if err == nil {
		r.log.Info("node registered")
		r.know(node)
		r.reported = time.Time{}
		return nil
	}
	// Also where nodes may not make themselves: somebody else may have.
	there, getErr := r.get(ctx)
	switch {
	case apierrors.IsNotFound(getErr):
		return err
	case getErr != nil:
		return getErr
	}
	r.know(there)
	r.reported = time.Time{}
	return r.label(ctx)
}

// label brings the labels of the node up to date. A server that forbids one says
// so, and the node works without it.
func (r *Reporter) label(ctx context.Context) error {
	patch, err := labelsPatch(r.known, r.opts.Labels)
	if err != nil || patch == nil {
		return err
	}
	node, err := r.patch(ctx, types.MergePatchType, patch)
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		r.log.Warn("the API server refuses the labels of this node", zap.Error(err))
		return nil
	case err != nil:
		r.known = nil
		return err
	}
	r.know(node)
	return nil
}

func (r *Reporter) know(node *v1.Node) { r.known, r.seen = node, time.Now() }

// check reads the node if what is known of it is in doubt.
func (r *Reporter) check(ctx context.Context) error {
	if stale := r.stale.Swap(false); r.known == nil || !stale && time.Since(r.seen) < CheckInterval {
		return nil
	}
	node, err := r.get(ctx)
	switch {
	case apierrors.IsNotFound(err):
		r.known = nil
	case err != nil:
		r.stale.Store(true)
		return err
	default:
		r.know(node)
	}
	return nil
}

func (r *Reporter) get(ctx context.Context) (*v1.Node, error) {
	return request(ctx, func(ctx context.Context) (*v1.Node, error) {
		return r.opts.Nodes.Get(ctx, r.opts.NodeName, metav1.GetOptions{})
	})
}

// fresh is the node as it is made. Its status comes with the first patch: a node
// that is made is not ready.
func (r *Reporter) fresh() *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: r.opts.NodeName, Labels: maps.Clone(r.opts.Labels)},
		Spec:       v1.NodeSpec{Taints: r.opts.Taints},
	}
}

func (r *Reporter) patch(ctx context.Context, kind types.PatchType, patch []byte, subresources ...string) (*v1.Node, error) {
	return request(ctx, func(ctx context.Context) (*v1.Node, error) {
		return r.opts.Nodes.Patch(ctx, r.opts.NodeName, kind, patch, metav1.PatchOptions{}, subresources...)
	})
}

// request bounds one call.
func request[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	return call(ctx)
}

// sleep waits until d is over, ctx ends or something wakes it.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}
