// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-dev/keelson/internal/signal"
)

// Nodes reads and writes nodes. client-go's NodeInterface implements it.
type Nodes interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*v1.Node, error)
	Create(ctx context.Context, node *v1.Node, opts metav1.CreateOptions) (*v1.Node, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*v1.Node, error)
}

// Leases reads and writes leases in v1.NamespaceNodeLease. client-go's LeaseInterface for the
// namespace implements it.
type Leases interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*coordinationv1.Lease, error)
	Create(ctx context.Context, lease *coordinationv1.Lease, opts metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

// Intervals and timeouts. All are the kubelet's defaults except requestTimeout: the kubelet uses
// the client's timeout.
const (
	defaultUpdateInterval = 10 * time.Second
	defaultReportInterval = 5 * time.Minute
	defaultLeaseDuration  = 40 * time.Second
	defaultMaxImages      = 50
	// checkInterval is the time between two reads of the node, to find changes by other clients,
	// such as a controller that marked the node as dead.
	checkInterval = time.Minute
	// leaseRenewals is the number of renewals in the validity of a lease.
	leaseRenewals = 4
	// requestTimeout is the timeout of a request. Requests of a renewal also end with the validity of
	// the lease.
	requestTimeout = 10 * time.Second
	// startInterval replaces a longer Options.UpdateInterval until the node is ready for the first time, for at most
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
	// Leases writes the node's lease. Defaults to none. Without a lease, only the status shows that
	// the node is alive, every five minutes. The default settings of Kubernetes' controllers need a
	// shorter interval.
	Leases Leases
	// Facts returns the current data of the node. Required.
	Facts func(ctx context.Context) Facts
	// Labels are set on the node, in addition to kubernetes.io/hostname, os and arch, and the older
	// names of the last two. Other labels of the node stay.
	Labels map[string]string
	// Taints are set when the node is created. An existing node keeps its taints.
	Taints []v1.Taint
	// ProviderID is the node's ID at its cloud provider, such as aws:///eu-west-1a/i-0123. It is set
	// when the node is created. An existing node keeps its ID. Defaults to none.
	ProviderID string
	// UpdateInterval is the time between two calls of Facts. Defaults to ten seconds.
	UpdateInterval time.Duration
	// ReportInterval is the longest time between two writes of an unchanged status. Defaults to five
	// minutes.
	ReportInterval time.Duration
	// LeaseDuration is the validity of a lease, in whole seconds. The lease is renewed four times in
	// that duration. Defaults to 40 seconds.
	LeaseDuration time.Duration
	// MaxImages is the highest number of images in the status. The largest images are kept. Negative:
	// any number. Defaults to 50.
	MaxImages int
	// Events records events about the node. client-go's recorder fits. Defaults to none.
	Events EventRecorder
	// Logger receives the log. Defaults to none.
	Logger *zap.Logger
}

// annotations are set on the node, as by the kubelet (1.36). The first tells the attach-detach
// controller that the node leaves the attachment of volumes to the controller.
var annotations = map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}

// The older names of v1.LabelOSStable and v1.LabelArchStable, which the kubelet still sets.
const (
	labelOSBeta   = "beta.kubernetes.io/os"
	labelArchBeta = "beta.kubernetes.io/arch"
)

// ErrOptions is wrapped by the errors of New.
var ErrOptions = errors.New("nodestatus: wrong options")

// Reporter registers a node and writes its status. All methods except Poke must be called from a
// single goroutine.
type Reporter struct {
	opts   Options
	log    *zap.Logger
	ran    atomic.Bool
	poked  signal.Signal
	leases *renewer // nil: no lease

	known    *v1.Node // the node as last read or written; nil: unknown
	seen     time.Time
	stale    atomic.Bool // known may be outdated
	found    bool        // known was there at the registration, and no status has been written since
	reported time.Time
	sent     v1.NodeStatus // the status of the last patch
	answer   v1.NodeStatus // what the server stored of it
	outage   outage
}

// New returns a Reporter. The error names the invalid option.
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
	if err := o.complete(); err != nil {
		return nil, err
	}
	labels := map[string]string{}
	maps.Copy(labels, o.Labels)
	maps.Copy(labels, map[string]string{
		v1.LabelHostname: o.NodeName, v1.LabelOSStable: runtime.GOOS, v1.LabelArchStable: runtime.GOARCH,
		labelOSBeta: runtime.GOOS, labelArchBeta: runtime.GOARCH,
	})
	o.Labels = labels
	r := &Reporter{opts: o, log: o.Logger, poked: signal.New(), outage: outage{
		log: o.Logger, begin: "cannot write the status of the Node object; trying again", end: "the status of the Node object is written again",
	}}
	if o.Leases != nil {
		r.leases = newRenewer(o, r.doubt)
	}
	return r, nil
}

// complete sets the defaults of numbers and of the Logger.
func (o *Options) complete() error {
	switch {
	case o.UpdateInterval < 0, o.ReportInterval < 0:
		return fmt.Errorf("%w: UpdateInterval %s, ReportInterval %s: want 0 or more", ErrOptions, o.UpdateInterval, o.ReportInterval)
	case o.LeaseDuration < 0, o.LeaseDuration%time.Second != 0:
		return fmt.Errorf("%w: LeaseDuration %s: want whole seconds", ErrOptions, o.LeaseDuration)
	}
	o.UpdateInterval = cmp.Or(o.UpdateInterval, defaultUpdateInterval)
	o.ReportInterval = cmp.Or(o.ReportInterval, defaultReportInterval)
	o.LeaseDuration = cmp.Or(o.LeaseDuration, defaultLeaseDuration)
	o.MaxImages = cmp.Or(o.MaxImages, defaultMaxImages)
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	return nil
}

// Poke triggers a report soon. It may be called from any goroutine, also before Run.
func (r *Reporter) Poke() {
	r.poked.Notify()
}

// doubt triggers a read of the node and then a report.
func (r *Reporter) doubt() {
	r.stale.Store(true)
	r.Poke()
}

// Run writes the node until ctx ends, and then returns nil. It can be called once.
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
		wait := r.opts.UpdateInterval
		err := r.Report(ctx)
		r.outage.note(ctx, err)
		if err != nil {
			wait, pause = min(pause, wait), min(2*pause, maxBackoff)
		} else {
			pause = minBackoff
			if !r.ready() && time.Since(start) < startPatience {
				wait = min(wait, startInterval)
			}
		}
		if r.known != nil && r.known.UID != told {
			told = r.known.UID
			select {
			case <-registered: // drop an earlier node's UID that was not yet received
			default:
			}
			registered <- told
		}
		sleep(ctx, wait, r.poked)
	}
	return nil
}

// outage logs the first of several failures in a row, and the end of the failures.
type outage struct {
	log        *zap.Logger
	begin, end string // messages
	lasts      bool
}

// note records the result of an attempt. A failure after the end of ctx does not count.
func (o *outage) note(ctx context.Context, err error) {
	switch {
	case err == nil && o.lasts:
		o.log.Info(o.end)
	case err != nil && ctx.Err() == nil && !o.lasts:
		o.log.Warn(o.begin, zap.Error(err))
	default:
		return
	}
	o.lasts = err != nil
}

func (r *Reporter) ready() bool {
	isReady := func(c v1.NodeCondition) bool { return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue }
	return slices.ContainsFunc(r.known.Status.Conditions, isReady)
}

// Report is one step of Run. It registers the node if necessary, and writes the status if it has
// changed or is old.
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
	facts.Images = largest(facts.Images, r.opts.MaxImages)
	before := r.known.Status
	if r.found && facts.IsNew {
		before.Capacity = withoutExtended(before.Capacity)
	}
	after := status(before, facts, now)
	if r.isReported(after) && !r.reported.IsZero() && now.Sub(r.reported) < r.opts.ReportInterval {
		return nil
	}
	patch, err := statusPatch(r.known.Status, after)
	if err != nil {
		return fmt.Errorf("status of node %s: %w", r.opts.NodeName, err)
	}
	node, err := r.patch(ctx, types.StrategicMergePatchType, patch, "status")
	switch {
	case apierrors.IsNotFound(err): // another client deleted the node
		r.known = nil
		return fmt.Errorf("node %s is gone: %w", r.opts.NodeName, err)
	case err != nil:
		return fmt.Errorf("status of node %s: %w", r.opts.NodeName, err)
	}
	if node.UID != r.known.UID { // another client deleted and recreated the node
		r.log.Info("another client has created the node again")
	}
	r.tell(r.known.Status.Conditions, after.Conditions)
	r.tellReboot(r.known.Status.NodeInfo.BootID, after.NodeInfo.BootID)
	r.know(node)
	r.reported, r.sent, r.answer, r.found = now, after, node.Status, false
	return nil
}

// Renew is the other step of Run. It renews the lease of the node with a single attempt, and has no
// effect without Options.Leases. It needs a successful Report before. A process with many nodes calls
// Report and Renew of all nodes from a few goroutines.
func (r *Reporter) Renew(ctx context.Context) error {
	if r.leases == nil || r.known == nil {
		return nil
	}
	r.leases.uid = r.known.UID
	return r.leases.renew(ctx)
}

// isReported reports whether the server has the status, or has stored as much of it as it stores: a
// server without a feature gate drops the fields of the feature.
func (r *Reporter) isReported(status v1.NodeStatus) bool {
	return same(r.known.Status, status) || same(r.sent, status) && same(r.known.Status, r.answer)
}

// register creates the node, or labels the existing node.
func (r *Reporter) register(ctx context.Context) error {
	node, err := request(ctx, func(ctx context.Context) (*v1.Node, error) {
		return r.opts.Nodes.Create(ctx, r.fresh(), metav1.CreateOptions{})
	})
	if err == nil {
		r.log.Info("node registered")
		r.know(node)
		r.reported, r.found = time.Time{}, false
		return nil
	}
	// After any error the node may exist, created by another client if the agent may not create
	// nodes.
	there, getErr := r.get(ctx)
	switch {
	case apierrors.IsNotFound(getErr):
		return err
	case getErr != nil:
		return getErr
	}
	r.know(there)
	r.reported, r.found = time.Time{}, true
	return r.label(ctx)
}

// label updates the labels and annotations of the node. If the server forbids a label, label logs
// the error, and the node works without the label.
func (r *Reporter) label(ctx context.Context) error {
	patch, err := metadataPatch(r.known, r.opts.Labels, annotations)
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

func (r *Reporter) know(node *v1.Node) {
	if r.known != nil && r.known.UID == node.UID {
		r.tellCordon(r.known.Spec.Unschedulable, node.Spec.Unschedulable)
	}
	r.known, r.seen = node, time.Now()
}

// check reads the node if it may have changed.
func (r *Reporter) check(ctx context.Context) error {
	if stale := r.stale.Swap(false); r.known == nil || !stale && time.Since(r.seen) < checkInterval {
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

// fresh returns the node to create. Its status follows with the first patch, because a new node is
// not ready.
func (r *Reporter) fresh() *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: r.opts.NodeName, Labels: maps.Clone(r.opts.Labels), Annotations: maps.Clone(annotations)},
		Spec:       v1.NodeSpec{Taints: r.opts.Taints, ProviderID: r.opts.ProviderID},
	}
}

func (r *Reporter) patch(ctx context.Context, kind types.PatchType, patch []byte, subresources ...string) (*v1.Node, error) {
	return request(ctx, func(ctx context.Context) (*v1.Node, error) {
		return r.opts.Nodes.Patch(ctx, r.opts.NodeName, kind, patch, metav1.PatchOptions{}, subresources...)
	})
}

// request makes a call with a timeout.
func request[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return call(ctx)
}

// sleep waits until d has passed, ctx ends or wake receives a value.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	select {
	case <-time.After(d):
	case <-wake:
	case <-ctx.Done():
	}
}
