// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/volumemanager/plugins/configmap"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/plugins/secret"
)

const (
	// requestTimeout is the time limit of a request.
	requestTimeout = 10 * time.Second
	// answerPatience limits the wait of ConfigMap and Secret for the first answer about an object.
	answerPatience = 5 * time.Second
	// maxOpens is the largest number of objects requested at a time; open watches do not count.
	maxOpens = 8
)

// ObjectsOptions are the options of NewObjects.
type ObjectsOptions struct {
	// Client reads the objects, for example client-go's CoreV1(). Required.
	Client ObjectsClient
	// Changed is called for each object whose content has changed, or that was created or deleted.
	// It is also called when an object becomes known after a call has failed because the object was
	// not known. Changed is called without a lock held, one call at a time per object, but
	// concurrently for several objects. It should not block: events of the object wait until it
	// returns. Defaults to no call.
	Changed func(objects.Ref)
	// Random is in [0, 1) and spreads the retries and the ends of watches. It may be called by
	// several goroutines. Defaults to package math/rand/v2; a reproducible simulation passes its
	// own.
	Random func() float64
	// Logger receives each new kind of failure once, at level warn, and a line at level info when
	// all failures have ended. Defaults to silence.
	Logger *zap.Logger
}

func (o ObjectsOptions) withDefaults() (ObjectsOptions, error) {
	if o.Client == nil {
		return o, fmt.Errorf("%w: ObjectsOptions.Client is required", ErrOptions)
	}
	if o.Changed == nil {
		o.Changed = func(objects.Ref) {}
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	return o, nil
}

// Objects returns the ConfigMaps and Secrets used by the pods of a node, as stored in an API
// server. It implements configmap.Source and secret.Source, and package runtime reads container
// environments from it. All methods are safe for concurrent use.
type Objects struct {
	options ObjectsOptions
	kick    signal.Signal // holds a token if Run must dispatch again
	stopped chan struct{} // closed when Run has returned
	fetches flights[objects.Ref, content]
	ran     atomic.Bool

	mu struct {
		sync.Mutex
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

// NewObjects returns an Objects that sends no requests until Run. The error names the invalid
// option.
func NewObjects(options ObjectsOptions) (*Objects, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	o := &Objects{options: options, kick: signal.New(), stopped: make(chan struct{})}
	o.mu.entries = map[objects.Ref]*entry{}
	o.mu.pods = map[types.UID]map[objects.Ref]bool{}
	o.mu.report.told = map[kind]bool{}
	return o, nil
}

// Register adds the objects named by a pod of the node. A second call for the same UID replaces the
// pod's objects; objects in both sets keep their watch. Register does not keep the pod.
func (o *Objects) Register(pod *v1.Pod) { o.use(pod.UID, references(pod)) }

// Unregister removes the objects of a pod. An unregistered UID is not an error.
func (o *Objects) Unregister(uid types.UID) { o.use(uid, nil) }

func (o *Objects) use(uid types.UID, want map[objects.Ref]bool) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	have := o.mu.pods[uid]
	for ref := range want {
		if !have[ref] {
			o.hold(ref, now)
			o.kick.Notify()
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

// hold adds a user of the object. An object that waits for a retry is queued at once. An immutable
// object is requested again, because it may have been deleted and created anew.
func (o *Objects) hold(ref objects.Ref, now time.Time) {
	e := o.mu.entries[ref]
	if e == nil {
		e = newEntry(ref)
		o.mu.entries[ref] = e
	}
	e.users++
	if e.phase == phaseSettled {
		e.phase = phaseWaiting
	}
	if e.phase == phaseWaiting {
		e.failures = 0
		o.mu.queue.put(e, now)
	}
}

// release removes a user of the object, and the entry with its last user.
func (o *Objects) release(ref objects.Ref) {
	e := o.mu.entries[ref]
	if e.users--; e.users > 0 {
		return
	}
	delete(o.mu.entries, ref)
	o.mu.queue.remove(e)
	o.mu.report.over(ref)
	o.kick.Notify()
	close(e.dropped)
	if e.cancel != nil {
		e.cancel()
	}
}

// ConfigMap returns an object; do not write to it. An object used by a registered pod comes from
// memory, also during a server outage. Before the first answer, ConfigMap waits for the answer, at
// most 5 s. Any other object is requested from the server at each call.
//
// If the server has reported the object as missing, apierrors.IsNotFound is true for the error. Any
// other error means that the state of the object is not known: an *Error, also wrapped together
// with the cause of ctx; or ErrStopped.
func (o *Objects) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	c, err := o.content(ctx, objects.Ref{Kind: objects.ConfigMap, Namespace: namespace, Name: name})
	if err == nil && c.configMap == nil {
		err = apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
	}
	return c.configMap, err
}

// Secret is like ConfigMap, for Secrets.
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
	var cause error
	select {
	case <-e.answered:
	case <-e.dropped:
		return o.fetch(ctx, ref)
	case <-time.After(answerPatience):
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-o.stopped:
		cause = ErrStopped
	}
	return o.answer(e, cause)
}

// answer returns the content of e after a wait. cause is the reason for an early end of the wait.
func (o *Objects) answer(e *entry, cause error) (content, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.known {
		return e.content, nil
	}
	e.missed = true
	switch {
	case cause == nil && e.problem == nil:
		return content{}, &Error{Ref: e.ref, Verb: verbGet, Reason: clientkit.Timeout, Err: clientkit.TimeoutError{After: answerPatience}}
	case cause == nil:
		return content{}, e.problem
	case e.problem == nil:
		return content{}, fmt.Errorf("get: %w", cause)
	}
	return content{}, fmt.Errorf("%w: %w", cause, e.problem)
}

// fetch requests an object that no registered pod uses.
func (o *Objects) fetch(ctx context.Context, ref objects.Ref) (content, error) {
	return o.fetches.do(ctx, ref, func(ctx context.Context) (content, error) {
		ctx, cancel := context.WithTimeoutCause(silent(ctx), requestTimeout, clientkit.TimeoutError{After: requestTimeout})
		defer cancel()
		return get(ctx, o.options.Client, ref)
	})
}
