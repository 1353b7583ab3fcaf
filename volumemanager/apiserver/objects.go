// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/volumemanager/plugins/configmap"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/plugins/secret"
)

// The defaults of ObjectsOptions.
const (
	DefaultPatience = 5 * time.Second
	DefaultTimeout  = 10 * time.Second
	DefaultMaxOpens = 8
)

// ObjectsOptions are the options of NewObjects.
type ObjectsOptions struct {
	// Client reads the objects; client-go's CoreV1() is one. Required.
	Client ObjectsClient
	// Changed is told of each object with other content than before, that is new, or gone; and of one that is known at
	// last, if somebody has asked for it in vain. It is called outside of any lock, for one object at a time but for
	// several concurrently, and should not block: no more is heard of the object until it returns. Defaults to nobody.
	Changed func(objects.Ref)
	// Patience is how long ConfigMap and Secret wait for the first answer about an object if their ctx does not end before.
	// Negative means for ever. Defaults to DefaultPatience.
	Patience time.Duration
	// Timeout is how long one request may take. Defaults to DefaultTimeout.
	Timeout time.Duration
	// MaxOpens is how many objects may be asked for at a time; watches that are open do not count. Defaults to
	// DefaultMaxOpens.
	MaxOpens int
	// Problem is called once for each new kind of problem, with an *Error, and once with nil when all is well again; never
	// concurrently. Defaults to Logger: at level warn, respectively info.
	Problem func(err error)
	// Logger defaults to none.
	Logger *zap.Logger
}

func (o ObjectsOptions) withDefaults() (ObjectsOptions, error) {
	switch {
	case o.Client == nil:
		return o, fmt.Errorf("%w: ObjectsOptions.Client is required", ErrOptions)
	case o.Timeout < 0:
		return o, fmt.Errorf("%w: ObjectsOptions.Timeout is negative: %v", ErrOptions, o.Timeout)
	case o.MaxOpens < 0:
		return o, fmt.Errorf("%w: ObjectsOptions.MaxOpens is negative: %d", ErrOptions, o.MaxOpens)
	}
	o.Patience = cmp.Or(o.Patience, DefaultPatience)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.MaxOpens = cmp.Or(o.MaxOpens, DefaultMaxOpens)
	if o.Changed == nil {
		o.Changed = func(objects.Ref) {}
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o, nil
}

// Objects has the ConfigMaps and Secrets that the pods of a node use, as an API server has them. It is a
// configmap.Source and a secret.Source, and what package runtime makes environments of. Its methods are safe for
// concurrent use.
type Objects struct {
	options ObjectsOptions
	kick    chan struct{} // holds one token if Run has to look again
	stopped chan struct{} // closed when Run has returned
	fetches flights[objects.Ref, content]

	mu struct {
		sync.Mutex
		running bool
		entries map[objects.Ref]*entry
		pods    map[types.UID]map[objects.Ref]bool
		queue   queue
		opening int
		uplink  uplink
		report  report
	}
}

var (
	_ configmap.Source = (*Objects)(nil)
	_ secret.Source    = (*Objects)(nil)
)

// NewObjects returns an Objects, which asks for nothing until Run. An error names the option that is wrong.
func NewObjects(options ObjectsOptions) (*Objects, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	o := &Objects{options: options, kick: make(chan struct{}, 1), stopped: make(chan struct{})}
	o.mu.entries = map[objects.Ref]*entry{}
	o.mu.pods = map[types.UID]map[objects.Ref]bool{}
	o.mu.report.told = map[kind]bool{}
	return o, nil
}

// Register says that a pod of the node uses the objects that it names. Called again, it replaces what was said of a pod
// with that UID; what it used before and uses still is not disturbed. The pod is not kept.
func (o *Objects) Register(pod *v1.Pod) { o.use(pod.UID, references(pod)) }

// Unregister says that a pod uses nothing any more. One that was not registered is no error.
func (o *Objects) Unregister(uid types.UID) { o.use(uid, nil) }

func (o *Objects) use(uid types.UID, want map[objects.Ref]bool) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	have := o.mu.pods[uid]
	for ref := range want {
		if !have[ref] {
			o.hold(ref, now)
			o.wake()
		}
	}
	for ref := range have {
		if !want[ref] {
			o.release(ref)
		}
	}
	if len(want) == 0 {
		delete(o.mu.pods, uid)
	} else {
		o.mu.pods[uid] = want
	}
}

// hold adds a user. An object that waits for another attempt gets it at once. One that is immutable is asked for again:
// it may have been deleted and made anew since.
func (o *Objects) hold(ref objects.Ref, now time.Time) {
	e := o.mu.entries[ref]
	if e == nil {
		e = newEntry(ref, now)
		o.mu.entries[ref] = e
	}
	e.users++
	if e.phase == PhaseSettled {
		e.enter(PhaseWaiting, now)
	}
	if e.phase == PhaseWaiting {
		e.failures = 0
		o.mu.queue.put(e, now)
	}
}

// release takes a user away, and the entry with the last one.
func (o *Objects) release(ref objects.Ref) {
	e := o.mu.entries[ref]
	if e.users--; e.users > 0 {
		return
	}
	delete(o.mu.entries, ref)
	o.mu.queue.remove(e)
	o.mu.report.over(ref)
	o.wake()
	close(e.dropped)
	if e.cancel != nil {
		e.cancel()
	}
}

// wake has Run look again.
func (o *Objects) wake() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// ConfigMap returns an object, which must not be written to. One that a registered pod uses comes from memory, also
// while the server is away; until there is a first answer, ConfigMap waits for it. Any other is asked of the server, each
// time.
//
// That the server has said that there is no such object is an error for which apierrors.IsNotFound is true. Any other
// error means that this is not known: an *Error, also as the reason that is wrapped with the cause of ctx's end; or
// ErrStopped.
func (o *Objects) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	c, err := o.content(ctx, objects.Ref{Kind: objects.ConfigMap, Namespace: namespace, Name: name})
	if err == nil && c.configMap == nil {
		err = apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
	}
	return c.configMap, err
}

// Secret is ConfigMap for Secrets.
func (o *Objects) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	c, err := o.content(ctx, objects.Ref{Kind: objects.Secret, Namespace: namespace, Name: name})
	if err == nil && c.secret == nil {
		err = apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return c.secret, err
}

func (o *Objects) content(ctx context.Context, ref objects.Ref) (content, error) {
	o.mu.Lock()
	e := o.mu.entries[ref]
	if e != nil && e.known {
		defer o.mu.Unlock()
		return e.content, nil
	}
	o.mu.Unlock()
	if e == nil {
		return o.fetch(ctx, ref)
	}
	var impatient <-chan time.Time // never, if Patience is negative
	if o.options.Patience > 0 {
		timer := time.NewTimer(o.options.Patience)
		defer timer.Stop()
		impatient = timer.C
	}
	var cause error
	select {
	case <-e.answered:
	case <-e.dropped:
		return o.fetch(ctx, ref)
	case <-impatient:
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-o.stopped:
		cause = ErrStopped
	}
	return o.answer(e, cause)
}

// answer returns what is known of e after a wait, which may have ended by the cause.
func (o *Objects) answer(e *entry, cause error) (content, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.known {
		return e.content, nil
	}
	e.missed = true
	switch {
	case cause == nil && e.problem == nil:
		return content{}, &Error{Ref: e.ref, Verb: VerbGet, Reason: ReasonTimeout, Err: timeoutError{o.options.Patience}}
	case cause == nil:
		return content{}, e.problem
	case e.problem == nil:
		return content{}, fmt.Errorf("get: %w", cause)
	}
	return content{}, fmt.Errorf("%w: %w", cause, e.problem)
}

// fetch asks the server for an object that no registered pod uses.
func (o *Objects) fetch(ctx context.Context, ref objects.Ref) (content, error) {
	return o.fetches.do(ctx, ref, func(ctx context.Context) (content, error) {
		ctx, cancel := context.WithTimeoutCause(silent(ctx), o.options.Timeout, timeoutError{o.options.Timeout})
		defer cancel()
		return get(ctx, o.options.Client, ref)
	})
}

// Snapshot returns what is known of each object that registered pods use, sorted by namespace, kind and name.
func (o *Objects) Snapshot() []ObjectState {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]ObjectState, 0, len(o.mu.entries))
	for _, e := range o.mu.entries {
		all = append(all, e.state())
	}
	slices.SortFunc(all, func(a, b ObjectState) int {
		return cmp.Or(cmp.Compare(a.Ref.Namespace, b.Ref.Namespace), cmp.Compare(a.Ref.Kind, b.Ref.Kind), cmp.Compare(a.Ref.Name, b.Ref.Name))
	})
	return all
}
