// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	storageclient "k8s.io/client-go/kubernetes/typed/storage/v1"
)

// DriversOptions are the options of NewDrivers.
type DriversOptions struct {
	// Client reads CSIDriver objects; client-go's StorageV1() is one. Required.
	Client storageclient.CSIDriversGetter
	// Timeout is how long one request may take. Defaults to DefaultTimeout.
	Timeout time.Duration
	// Logger is told when the server cannot be followed. Defaults to nobody.
	Logger *zap.Logger
}

// Drivers knows the CSIDriver objects of a cluster, all of them, from memory. It fits csi.Options.Drivers, and is a
// csi.Awaiter.
type Drivers struct {
	options DriversOptions
	running once
	known   chan struct{} // closed when all have been read once
	mu      struct {
		sync.Mutex
		all map[string]*storagev1.CSIDriver
	}
}

// NewDrivers returns Drivers that know nothing until Run. An error names the option that is wrong.
func NewDrivers(o DriversOptions) (*Drivers, error) {
	switch {
	case o.Client == nil:
		return nil, fmt.Errorf("%w: DriversOptions.Client is required", ErrOptions)
	case o.Timeout < 0:
		return nil, fmt.Errorf("%w: DriversOptions.Timeout is negative: %v", ErrOptions, o.Timeout)
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return &Drivers{options: o, known: make(chan struct{})}, nil
}

// Driver returns the object of a driver, which is not to be written to; false if there is none, or none is known yet.
func (d *Drivers) Driver(name string) (*storagev1.CSIDriver, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one, ok := d.mu.all[name]
	return one, ok
}

// Await returns nil once the objects have been read, or the cause of ctx's end.
func (d *Drivers) Await(ctx context.Context) error {
	select {
	case <-d.known:
		return nil
	default:
	}
	select {
	case <-d.known:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the CSIDriver objects are not known yet: %w", context.Cause(ctx))
	}
}

// Run follows the objects until ctx ends; then it returns nil. What is known is still given out after that. There is one
// Run per Drivers.
func (d *Drivers) Run(ctx context.Context) error {
	if err := d.running.begin(); err != nil {
		return err
	}
	f := feed{what: "CSIDriver", timeout: d.options.Timeout, logger: d.options.Logger, list: d.list, watch: d.options.Client.CSIDrivers().Watch, see: d.see}
	f.follow(ctx)
	return nil
}

func (d *Drivers) list(ctx context.Context) (string, error) {
	list, err := d.options.Client.CSIDrivers().List(ctx, metav1.ListOptions{})
	if err == nil && (list == nil || list.ResourceVersion == "") {
		err = errBadAnswer // client-go reads any JSON object as a list
	}
	if err != nil {
		return "", err
	}
	all := make(map[string]*storagev1.CSIDriver, len(list.Items))
	for i := range list.Items {
		all[list.Items[i].Name] = &list.Items[i]
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.all == nil {
		close(d.known)
	}
	d.mu.all = all
	return list.ResourceVersion, nil
}

func (d *Drivers) see(e watch.Event) {
	one, ok := e.Object.(*storagev1.CSIDriver)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.Type == watch.Deleted {
		delete(d.mu.all, one.Name)
	} else {
		d.mu.all[one.Name] = one
	}
}
