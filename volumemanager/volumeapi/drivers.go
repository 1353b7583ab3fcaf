// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/internal/clientkit"
)

// DriversOptions are the options of NewDrivers.
type DriversOptions struct {
	// Client reads CSIDriver objects, for example FromStorage(StorageV1()) with client-go. Required.
	Client StorageClient
	// Logger receives failures to follow the objects. Defaults to silence.
	Logger *zap.Logger
}

// Drivers keeps all CSIDriver objects of a cluster in memory. It fits csi.Options.Drivers, and
// implements csi.Awaiter.
type Drivers struct {
	options DriversOptions
	ran     atomic.Bool
	known   chan struct{} // closed after the first list
	mu      struct {
		sync.Mutex
		all map[string]*storagev1.CSIDriver
	}
}

// NewDrivers returns empty Drivers; Run reads the objects. The error names the invalid option.
func NewDrivers(o DriversOptions) (*Drivers, error) {
	switch {
	case o.Client == nil:
		return nil, fmt.Errorf("%w: DriversOptions.Client is required", ErrOptions)
	}
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	return &Drivers{options: o, known: make(chan struct{})}, nil
}

// Driver returns the object of a driver; do not write to it. It returns false if there is no
// object, or before the first list.
func (d *Drivers) Driver(name string) (*storagev1.CSIDriver, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one, ok := d.mu.all[name]
	return one, ok
}

// Await returns nil after the first list, or the cause of ctx.
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

// Run follows the objects until ctx ends, then returns nil. Known objects are still returned after
// Run. A second Run is an error.
func (d *Drivers) Run(ctx context.Context) error {
	if d.ran.Swap(true) {
		return ErrRunning
	}
	f := feed{what: "CSIDriver", logger: d.options.Logger, list: d.list, watch: d.options.Client.CSIDrivers().Watch, see: d.see}
	f.follow(ctx)
	return nil
}

func (d *Drivers) list(ctx context.Context) (string, error) {
	list, err := d.options.Client.CSIDrivers().List(ctx, metav1.ListOptions{})
	if err == nil && (list == nil || list.ResourceVersion == "") {
		err = clientkit.ErrBadAnswer // client-go decodes any JSON object as a list
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
