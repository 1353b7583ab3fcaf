// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	plugins "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices/ledger"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/signal"
)

// Name is the name of the feature.
const Name = "devices"

// Times of the protocol. AllocateTimeout is not the kubelet's, which waits for ever.
const (
	DefaultPatience = 5 * time.Minute
	AllocateTimeout = 2 * time.Minute
	PreStartTimeout = 30 * time.Second
)

// Plugin is a connection to a device plug-in. The methods are called by several goroutines.
type Plugin interface {
	// Watch calls report with every full list of devices, one call after another, until ctx or the
	// connection ends.
	Watch(ctx context.Context, report func([]ledger.Device)) error
	// Prefer returns the devices that the plug-in would choose. A plug-in without preferences returns
	// none.
	Prefer(ctx context.Context, c ledger.Choice) ([]string, error)
	// Allocate prepares devices for a container and returns the changes to the container's spec.
	Allocate(ctx context.Context, ids []string) (*plugins.ContainerAllocateResponse, error)
	// PreStart prepares devices for the start of a container, if the plug-in asked for the call.
	PreStart(ctx context.Context, ids []string) error
}

// Options configure a Manager.
type Options struct {
	// Dir is the absolute path of the folder for the checkpoint. It must exist. Required.
	Dir string
	// Patience is how long a resource is known without a plug-in, and so how long a pod waits for the
	// plug-in. The time begins when the plug-in leaves or the agent starts, and ends when a plug-in has
	// listed its devices. Defaults to DefaultPatience.
	Patience time.Duration
	// Hooks receive changes and measurements. Defaults to none.
	Hooks Hooks
	// Logger receives the log. Defaults to none.
	Logger *zap.Logger
}

// Hooks receive changes and measurements. The functions may be nil and must not block.
type Hooks struct {
	// Changed is called when the result of Resources may have changed.
	Changed func()
	// Allocated is called after each Allocate call to a plug-in.
	Allocated func(resource string, took time.Duration)
}

// Manager assigns devices to containers. Its methods are safe for concurrent use.
type Manager struct {
	opts     Options
	log      *zap.Logger
	host     *feature.Host // set by Feature
	admitted *feature.Slot[bool]
	began    *feature.Slot[bool]      // pods whose devices this agent has prepared
	absent   *feature.Slot[time.Time] // since when a holder of devices is unknown to the node
	expiry   signal.Signal            // the next time of expire may have changed

	saving sync.Mutex // held while the checkpoint is written
	saved  []byte     // guarded by saving

	mu struct {
		sync.Mutex
		book    *ledger.Ledger
		plugins map[string]*connection
		away    map[string]time.Time // since when a known resource has no plug-in
		gone    map[string]bool      // resources that were forgotten
		opened  time.Time
	}
}

// connection is the plug-in that serves a resource.
type connection struct {
	Plugin
	stop context.CancelCauseFunc
}

// ErrUnregistered is the cause with which the caller of Follow ends ctx if the plug-in has taken back
// its registration. Any other cause means that the agent ends, and the devices stay.
var ErrUnregistered = errors.New("the plug-in has unregistered")

// errReplaced ends the watch of a plug-in that registered again.
var errReplaced = errors.New("the plug-in registered again")

// New returns a Manager without devices. The error names the invalid option.
func New(o Options) (*Manager, error) {
	switch {
	case !filepath.IsAbs(o.Dir):
		return nil, fmt.Errorf("devices: Options.Dir %q: want an absolute path", o.Dir)
	case o.Patience < 0:
		return nil, fmt.Errorf("devices: Options.Patience %s: want 0 or more", o.Patience)
	case o.Patience == 0:
		o.Patience = DefaultPatience
	}
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	if o.Hooks.Changed == nil {
		o.Hooks.Changed = func() {}
	}
	if o.Hooks.Allocated == nil {
		o.Hooks.Allocated = func(string, time.Duration) {}
	}
	m := &Manager{opts: o, log: o.Logger, expiry: signal.New()}
	m.mu.book, m.mu.plugins = ledger.New(), map[string]*connection{}
	m.mu.away, m.mu.gone = map[string]time.Time{}, map[string]bool{}
	return m, nil
}

// Follow serves a resource with the devices of a plug-in, in place of the plug-in that served the
// resource before. Follow returns when ctx or the connection ends, or when another plug-in takes the
// place. The error says why.
func (m *Manager) Follow(ctx context.Context, resource string, p Plugin) error {
	watch, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c := &connection{p, stop}
	m.mu.Lock()
	before := m.mu.plugins[resource]
	m.mu.plugins[resource] = c
	m.mu.Unlock()
	if before != nil {
		before.stop(errReplaced)
	}
	err := p.Watch(watch, func(devices []ledger.Device) { m.report(resource, c, devices) })
	if cause := context.Cause(watch); cause != nil {
		err = cause
	}
	if ctx.Err() != nil && !errors.Is(err, ErrUnregistered) { // the agent ends: the plug-in is still there
		return err
	}
	m.mu.Lock()
	if m.mu.plugins[resource] != c {
		m.mu.Unlock()
		return err
	}
	delete(m.mu.plugins, resource)
	changed := m.mu.book.Leave(resource)
	if _, isAway := m.mu.away[resource]; m.mu.book.IsKnown(resource) && !isAway { // a plug-in that listed no device was not there
		m.mu.away[resource] = time.Now()
	}
	m.mu.Unlock()
	m.log.Warn("device plug-in is gone", zap.String("resource", resource), zap.Error(err))
	m.tell(changed)
	m.expiry.Notify()
	return err
}

// report stores the devices of a plug-in, unless another plug-in has taken its place.
func (m *Manager) report(resource string, c *connection, devices []ledger.Device) {
	m.mu.Lock()
	if m.mu.plugins[resource] != c {
		m.mu.Unlock()
		return
	}
	isBack := m.mu.book.IsAway(resource) || !m.mu.book.IsKnown(resource)
	changed := m.mu.book.Report(resource, devices)
	delete(m.mu.away, resource)
	delete(m.mu.gone, resource)
	m.mu.Unlock()
	m.save()
	if isBack {
		m.log.Info("device plug-in serves devices", zap.String("resource", resource), zap.Int("devices", len(devices)))
		changed = nil
		for _, pod := range m.host.AdmittedPods() { // some may wait in their workers
			changed = append(changed, pod.UID)
		}
	}
	m.tell(changed)
}

// tell reports changed devices to the node, and to the given pods.
func (m *Manager) tell(uids []types.UID) {
	for _, uid := range uids {
		m.host.Sync.Recheck(uid)
	}
	m.opts.Hooks.Changed()
	m.host.Reconsider()
}

// run forgets resources whose plug-ins stay away, until ctx ends. It first writes the checkpoint, so
// that the next agent knows that the node is not new.
func (m *Manager) run(ctx context.Context) error {
	m.save()
	for {
		select {
		case <-time.After(m.expire(time.Now())):
		case <-m.expiry:
		case <-ctx.Done():
			return nil
		}
	}
}

// expire forgets the resources that are away for longer than the patience, and returns the time
// until the next resource expires.
func (m *Manager) expire(now time.Time) (next time.Duration) {
	next = time.Hour
	var forgotten []string
	m.mu.Lock()
	if left := m.mu.opened.Add(m.opts.Patience).Sub(now); left > 0 { // see awaited
		next = left
	}
	for resource, since := range m.mu.away {
		left := since.Add(m.opts.Patience).Sub(now)
		if left > 0 {
			next = min(next, left)
			continue
		}
		m.mu.book.Forget(resource)
		delete(m.mu.away, resource)
		m.mu.gone[resource] = true
		forgotten = append(forgotten, resource)
	}
	m.mu.Unlock()
	for _, resource := range forgotten {
		m.log.Warn("no device plug-in has registered again: the resource is forgotten", zap.String("resource", resource), zap.Duration("after", m.opts.Patience))
	}
	if len(forgotten) > 0 {
		m.save()
		var waiting []types.UID
		for _, pod := range m.host.AdmittedPods() {
			waiting = append(waiting, pod.UID)
		}
		m.tell(waiting)
	} else {
		m.host.Reconsider()
	}
	return next
}

// Resources returns the resources of the node that plug-ins serve. The amounts of a resource without
// a plug-in are 0: the node status keeps the names.
func (m *Manager) Resources() (capacity, allocatable v1.ResourceList) {
	m.mu.Lock()
	defer m.mu.Unlock()
	capacity, allocatable = v1.ResourceList{}, v1.ResourceList{}
	set := func(name string, c ledger.Count) {
		capacity[v1.ResourceName(name)] = *resource.NewQuantity(int64(c.Capacity), resource.DecimalSI)
		allocatable[v1.ResourceName(name)] = *resource.NewQuantity(int64(c.Allocatable), resource.DecimalSI)
	}
	for name := range m.mu.gone {
		set(name, ledger.Count{})
	}
	for name, count := range m.mu.book.Counts() {
		set(name, count)
	}
	return capacity, allocatable
}

// Healthy returns the healthy devices of each resource.
func (m *Manager) Healthy() map[string][]ledger.Device {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.book.Healthy()
}

// Of returns the devices of a pod for which the plug-ins have answered.
func (m *Manager) Of(uid types.UID) (all []ledger.Holding) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.mu.book.Of(uid) {
		if h.IsCommitted() {
			all = append(all, h)
		}
	}
	return all
}
