// SPDX-License-Identifier: Apache-2.0

package natsbus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/statusmanager/statusreport"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// Options configure a Bus.
type Options struct {
	// Node is the name of the node, in lower case. Required.
	Node string
	// Conn is the connection to NATS. It should be made with nats.RetryOnFailedConnect(true) and
	// nats.MaxReconnects(-1). Required.
	Conn *nats.Conn
	// Desired and Statuses are the names of the buckets. They must exist. Required.
	Desired, Statuses string
	// Pods returns the pods of the node with their statuses. Each CheckPeriod, statuses that the bucket
	// has lost are sent again, and those of pods that the node does not know are removed. Required.
	Pods func() []*v1.Pod
	// Store receives the ConfigMaps and Secrets. Required.
	Store *objects.Store
	// Cache is the absolute path of a file with the last ConfigMaps and Secrets. Defaults to no file.
	Cache string
	// CheckPeriod is the time between two looks at the statuses, and between two looks whether the
	// bucket of desired pods is another one of the same name: a watch of JetStream does not end with
	// its bucket. Defaults to 30 s.
	CheckPeriod time.Duration
	// Problem receives the error of a key, and nil when the error is over. The key is "" for the cache
	// and for the uplink of statuses. It must not block. Required.
	Problem func(key string, err error)
}

// Bus is a podconfig.Source of a bucket.
type Bus struct {
	opts    Options
	js      jetstream.JetStream
	state   *state
	reports *statusreport.Reports

	repaired map[string]bool // keys that the last repair has sent; of Run
}

// SourceName is the name of the source.
const SourceName = "nats"

// New returns a Bus, and fills Options.Store from the cache.
func New(o Options) (*Bus, error) {
	for field, missing := range map[string]bool{
		"Node": o.Node == "", "Conn": o.Conn == nil, "Desired": o.Desired == "", "Statuses": o.Statuses == "",
		"Pods": o.Pods == nil, "Store": o.Store == nil, "Problem": o.Problem == nil,
	} {
		if missing {
			return nil, fmt.Errorf("natsbus: Options.%s is required", field)
		}
	}
	if o.Cache != "" && !filepath.IsAbs(o.Cache) {
		return nil, fmt.Errorf("natsbus: Options.Cache %q: want an absolute path", o.Cache)
	}
	if o.CheckPeriod < 0 {
		return nil, errors.New("natsbus: Options.CheckPeriod must not be negative")
	}
	o.CheckPeriod = cmp.Or(o.CheckPeriod, 30*time.Second)
	js, err := jetstream.New(o.Conn)
	if err != nil {
		return nil, fmt.Errorf("natsbus: %w", err)
	}
	b := &Bus{opts: o, js: js, state: newState(&o)}
	b.reports, err = statusreport.New(statusreport.Options{Send: b.send, Problem: func(err error) { o.Problem("", err) }})
	if err != nil {
		return nil, fmt.Errorf("natsbus: %w", err)
	}
	b.state.restore(o.Cache)
	return b, nil
}

// Name implements podconfig.Source.
func (b *Bus) Name() string { return SourceName }

// Reports returns the statuses that the bus sends. Its Run has to be called.
func (b *Bus) Reports() *statusreport.Reports { return b.reports }

// Run implements podconfig.Source.
func (b *Bus) Run(ctx context.Context, out podconfig.Sink) error {
	connected := b.opts.Conn.StatusChanged(nats.CONNECTED)
	defer b.opts.Conn.RemoveStatusListener(connected)
	for {
		if err := b.follow(ctx, out, connected); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// listTimeout limits the time for the list of a bucket.
const listTimeout = time.Minute

// made returns the time at which a bucket was made.
func made(ctx context.Context, kv jetstream.KeyValue) (time.Time, error) {
	status, err := kv.Status(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("bucket %s: %w", kv.Bucket(), err)
	}
	bucket, ok := status.(*jetstream.KeyValueBucketStatus)
	if !ok {
		return time.Time{}, fmt.Errorf("bucket %s: no stream", kv.Bucket())
	}
	return bucket.StreamInfo().Created, nil
}

// follow lists the bucket and follows its changes, until ctx ends, the connection was made anew, or the
// bucket was made anew.
func (b *Bus) follow(ctx context.Context, out podconfig.Sink, connected <-chan nats.Status) error {
	desired, err := b.js.KeyValue(ctx, b.opts.Desired)
	if err != nil {
		return fmt.Errorf("bucket %s: %w", b.opts.Desired, err)
	}
	first, err := made(ctx, desired)
	if err != nil {
		return err
	}
	own := token(b.opts.Node) + ".>"
	watch, err := desired.WatchFiltered(ctx, []string{podKeys + "." + own, configMapKeys + "." + own, secretKeys + "." + own})
	if err != nil {
		return fmt.Errorf("watch of bucket %s: %w", b.opts.Desired, err)
	}
	defer func() { _ = watch.Stop() }()
	b.state.begin()
	late := time.After(listTimeout)
	check := time.NewTicker(b.opts.CheckPeriod)
	defer check.Stop()
	for {
		var c podconfig.Change
		submit := false
		select {
		case <-ctx.Done():
			return nil
		case <-connected:
			return nil
		case <-check.C:
			switch now, err := made(ctx, desired); {
			case errors.Is(err, jetstream.ErrStreamNotFound):
				return err
			case err == nil && !now.Equal(first):
				return nil
			}
			if late == nil {
				b.repair(ctx) // the next look tries again
			}
			continue
		case <-late:
			return fmt.Errorf("bucket %s was not listed within %s", b.opts.Desired, listTimeout)
		case update, ok := <-watch.Updates():
			switch {
			case !ok && ctx.Err() != nil:
				return nil
			case !ok:
				return errors.New("the watch of bucket " + b.opts.Desired + " has ended")
			case update == nil: // the end of the list
				c, submit, late = b.state.end(), true, nil
				b.save()
			case update.Operation() == jetstream.KeyValuePut:
				c, submit = b.state.put(update.Key(), update.Revision(), update.Value())
			default:
				c, submit = b.state.drop(update.Key(), update.Revision())
			}
		}
		if b.state.listing != nil {
			continue
		}
		b.save()
		if submit {
			if err := out.Submit(ctx, c); err != nil {
				return err
			}
		}
	}
}

// save stores the cache.
func (b *Bus) save() {
	if err := b.state.save(b.opts.Cache); err != nil {
		b.opts.Problem("", fmt.Errorf("the node could not boot without the bus: %w", err))
	}
}

// Status is a value of the bucket of statuses.
type Status struct {
	UID    types.UID    `json:"uid"`
	Status v1.PodStatus `json:"status"`
}

// send sends a report.
func (b *Bus) send(ctx context.Context, r statusreport.Report) error {
	if !b.opts.Conn.IsConnected() {
		return nats.ErrDisconnected
	}
	statuses, err := b.js.KeyValue(ctx, b.opts.Statuses)
	if err != nil {
		return fmt.Errorf("bucket %s: %w", b.opts.Statuses, err)
	}
	key := Key(podKeys, b.opts.Node, r.NamespacedName)
	if r.Status == nil {
		return statuses.Delete(ctx, key)
	}
	value, err := json.Marshal(Status{r.UID, *r.Status})
	if err != nil {
		return err
	}
	_, err = statuses.Put(ctx, key, value)
	return err
}

// repair compares the statuses of the bucket with the pods of the node. The keys are read first: a pod
// that is new since has no key among them.
func (b *Bus) repair(ctx context.Context) {
	statuses, err := b.js.KeyValue(ctx, b.opts.Statuses)
	if err != nil {
		return // Reports tell of a bucket that cannot be reached
	}
	list, err := statuses.ListKeysFiltered(ctx, podKeys+"."+token(b.opts.Node)+".>")
	if err != nil {
		return
	}
	stale := map[string]bool{}
	for key := range list.Keys() {
		stale[key] = true
	}
	if ctx.Err() != nil {
		return
	}
	repaired := map[string]bool{}
	for _, pod := range b.opts.Pods() {
		key := Key(podKeys, b.opts.Node, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		// A repair may have replaced a newer status that was sent beside it, so it is made twice.
		if !stale[key] || b.repaired[key] {
			b.reports.Set(pod, pod.Status)
		}
		if !stale[key] {
			repaired[key] = true
		}
		delete(stale, key)
	}
	b.repaired = repaired
	for key := range stale {
		_ = statuses.Delete(ctx, key)
	}
}
