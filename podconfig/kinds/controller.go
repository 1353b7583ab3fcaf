// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/podconfig"
)

// Objects receives the ConfigMaps and Secrets of manifests. The receiver owns the objects. The methods
// must not block. Several goroutines may call the methods at once.
type Objects interface {
	SetConfigMap(*v1.ConfigMap)
	SetSecret(*v1.Secret)
	DeleteConfigMap(namespace, name string)
	DeleteSecret(namespace, name string)
}

// Options configure a Controller.
type Options struct {
	// Dir is the absolute path of a folder for the records of Jobs and CronJobs, used by this
	// Controller only. It is created. Required.
	Dir string
	// Objects receives the ConfigMaps and Secrets. Required.
	Objects Objects
	// Address is the address at which pods on the host network reach each other, such as
	// "127.0.0.1". A Service that selects such pods has this address. Defaults to none: such a
	// Service then has no variables.
	Address string
	// Earliest is a time in the past. As long as the clock of the node is before Earliest, or before
	// a recorded time of a CronJob, no Job of a CronJob starts. Defaults to the begin of 2026.
	Earliest time.Time
	// Event records an event about a pod of a Job, and must not block. Defaults to no events.
	Event func(pod *v1.Pod, eventType, reason, message string)
	// Logger receives the results of Jobs and the events of CronJobs. Defaults to none.
	Logger *zap.Logger
}

// Controller runs the objects of sources whose decoder is Expander.Pods: Jobs, CronJobs, Services and
// other kinds. The methods are safe for concurrent use.
type Controller struct {
	Options

	mu struct {
		sync.Mutex
		keepers []*keeper
		facts   map[types.UID]facts // of pods of the node
	}
}

// facts are the Controller's knowledge of a pod of the node.
type facts struct {
	namespace, name string
	labels          labels.Set
	address         string // "" without an address
	running         bool

	job   bool
	phase v1.PodPhase
	ended time.Time
	again int32 // restarts of containers
}

// New validates o, and returns a Controller. Errors name the field. New starts no goroutine.
func New(o Options) (*Controller, error) {
	switch {
	case !filepath.IsAbs(o.Dir):
		return nil, fmt.Errorf("kinds: Options.Dir %q: want an absolute path", o.Dir)
	case o.Objects == nil:
		return nil, errors.New("kinds: Options.Objects is required")
	}
	if o.Earliest.IsZero() {
		o.Earliest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	if o.Event == nil {
		o.Event = func(*v1.Pod, string, string, string) {}
	}
	c := &Controller{Options: o}
	c.mu.facts = map[types.UID]facts{}
	return c, nil
}

// Source returns a source with the pods of s and the pods of the Jobs and CronJobs of s. The Controller
// keeps the objects of s. The decoder of s must be Expander.Pods, and the name of s must be unique.
func (c *Controller) Source(s podconfig.Source) podconfig.Source {
	k := newKeeper(c, s)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.keepers = append(c.mu.keepers, k)
	return k
}

// Observe reports the status of a pod of the node to the Controller. The pod may be from any source.
// Observe does not block.
func (c *Controller) Observe(pod *v1.Pod, status v1.PodStatus) {
	f := facts{
		namespace: pod.Namespace, name: pod.Name, labels: pod.Labels, phase: status.Phase,
		running: status.Phase == v1.PodRunning, address: status.PodIP,
	}
	if pod.Spec.HostNetwork || status.PodIP == status.HostIP {
		f.address = c.Address // as seen by pods on the same network
	}
	_, f.job = pod.Labels[LabelJobName]
	for s := range podfacts.Statuses(&status) {
		f.again += s.RestartCount
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(f.ended) {
			f.ended = t.FinishedAt.Time
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before, known := c.mu.facts[pod.UID]
	c.mu.facts[pod.UID] = f
	if f.job && (!known || before.phase != f.phase || before.again != f.again) {
		for _, k := range c.mu.keepers {
			k.notice.Notify()
		}
	}
}

// Housekeep forgets the statuses of pods that the node does not know any more.
func (c *Controller) Housekeep(known func(types.UID) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.mu.facts, func(uid types.UID, _ facts) bool { return !known(uid) })
}

// Claim returns a claim of the manifests, or nil. Do not write to it.
func (c *Controller) Claim(namespace, name string) *v1.PersistentVolumeClaim {
	for _, k := range c.allKeepers() {
		if claim := k.claim(namespace, name); claim != nil {
			return claim
		}
	}
	return nil
}

func (c *Controller) allKeepers() []*keeper {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.mu.keepers)
}

// Services returns the Services of the pod's namespace that have an address. The address is the address
// of the selected running pod whose name sorts first. Services fits
// runtime.DefaultGeneratorOptions.Services. The caller owns the result. The error is always nil.
func (c *Controller) Services(_ context.Context, pod *v1.Pod) (all []*v1.Service, err error) {
	for _, k := range c.allKeepers() {
		for _, s := range k.services(pod.Namespace) {
			if found := c.selected(s); len(found) > 0 {
				s = s.DeepCopy()
				s.Spec.ClusterIP = found[0].address
				all = append(all, s)
			}
		}
	}
	return all, nil
}

// selected returns the running pods of a Service, in the order of their names.
func (c *Controller) selected(s *v1.Service) (found []facts) {
	selector := labels.SelectorFromSet(s.Spec.Selector)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.mu.facts {
		if f.running && f.address != "" && f.namespace == s.Namespace && selector.Matches(f.labels) {
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(a, b facts) int { return strings.Compare(a.name, b.name) })
	return found
}

// HostAliases returns entries for the hosts file of a pod's containers: the names of Services, and, for
// a pod of a StatefulSet with a Service, the pod's name in the Service.
func (c *Controller) HostAliases(pod *v1.Pod) (all []v1.HostAlias) {
	names := map[string][]string{} // by address
	for _, k := range c.allKeepers() {
		for _, s := range k.services("") {
			found := c.selected(s)
			if len(found) == 0 {
				continue
			}
			names[found[0].address] = append(names[found[0].address], namesOf(s.Name, s.Namespace, pod.Namespace)...)
			for _, f := range found {
				if own := f.labels["statefulset.kubernetes.io/pod-name"]; own != "" {
					names[f.address] = append(names[f.address], namesOf(own+"."+s.Name, s.Namespace, pod.Namespace)...)
				}
			}
		}
	}
	for _, address := range slices.Sorted(maps.Keys(names)) {
		all = append(all, v1.HostAlias{IP: address, Hostnames: names[address]})
	}
	return all
}

// namesOf returns the names of a Service as a pod of another or the same namespace writes them.
func namesOf(name, namespace, from string) []string {
	long := name + "." + namespace
	names := []string{long, long + ".svc", long + ".svc.cluster.local"}
	if namespace == from {
		names = slices.Insert(names, 0, name)
	}
	return names
}

// newKeeper returns a source that runs s.
func newKeeper(c *Controller, s podconfig.Source) *keeper {
	k := &keeper{Source: s, controller: c, notice: signal.New(), turn: make(chan struct{}, 1)}
	k.carriers, k.sent = map[objectName]*v1.Pod{}, map[types.UID]bool{}
	return k
}
