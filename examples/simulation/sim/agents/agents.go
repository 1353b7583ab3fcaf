// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/simulation/cluster"
	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// Options configure the backend.
type Options struct {
	// Nodes are the nodes of sim.Options. Required.
	Nodes []*v1.Node
	// Root is the absolute path of a folder for the files of the agents. Required.
	Root string
	// Seed determines the random values of agents. Defaults to 0, a valid seed.
	Seed uint64
}

// Agents is a sim.Backend. New returns it.
type Agents struct {
	name    string
	model   sim.Model
	snap    *sim.Snapshot
	server  server
	cluster *cluster.Cluster
	// namespace is that of all pods. Empty: the namespaces of their templates.
	namespace string
	// settle waits until all goroutines of the agents wait for a later instant. In real time it does not wait.
	settle  func()
	born    time.Time
	changed signal.Signal // an event, or a failure, has been added

	mu struct {
		sync.Mutex
		pods      map[types.NamespacedName]*life
		templates map[*sim.Shape]*v1.Pod // with defaults
		longest   time.Duration          // work of a pod
		events    []sim.Event
		err       error
	}
}

// server is the API server of the agents.
type server interface {
	// create stores a pod that is bound to its node.
	create(pod *v1.Pod) error
	// end lets the node stop a pod within the grace period.
	end(n names, graceSeconds int64) error
	// remove deletes a pod whose containers have ended.
	remove(n names)
}

// life is the state of a bound pod.
type life struct {
	names
	pod     *sim.Pod
	created bool          // on the API server
	timer   *time.Timer   // of the creation; nil: none
	request sync.Mutex    // held while the pod is created or evicted
	last    sim.EventKind // the last event
	// current is the ID of the first container, and stale its ID before the node was lost.
	current, stale string
}

// names identify a pod on the API server.
type names struct {
	types.NamespacedName
	uid types.UID // in memory; another API server has UIDs of its own
}

func (a *Agents) namesOf(p *sim.Pod) names {
	n := strconv.FormatUint(p.UID, 10)
	namespace := cmp.Or(a.namespace, p.Shape.Template.Namespace, v1.NamespaceDefault)
	return names{types.NamespacedName{Namespace: namespace, Name: "pod-" + n}, types.UID(n)}
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

func newAgents(name string, b sim.BackendInput) *Agents {
	a := &Agents{name: name, model: b.Model, snap: b.Snapshot, changed: signal.New(), settle: func() {}}
	a.mu.pods, a.mu.templates = map[types.NamespacedName]*life{}, map[*sim.Shape]*v1.Pod{}
	return a
}

// New returns a func for sim.Options.Backend, and a func that ends the agents after the run.
func New(o Options) (backend func(sim.BackendInput) (sim.Backend, error), stop func() error) {
	started, finish := false, func() error { return nil }
	backend = func(b sim.BackendInput) (sim.Backend, error) {
		if started {
			return nil, errors.New("agents: the backend is for a single run")
		}
		started = true
		a := newAgents("agents", b)
		a.settle, a.born = synctest.Wait, time.Now()
		var err error
		a.cluster, err = cluster.New(cluster.Options{
			Nodes: o.Nodes, Root: o.Root, Seed: o.Seed, Plain: true, ImageSizes: b.Model.ImageSizes, Bandwidth: b.Model.Bandwidth,
			Latency: a.latency, Behave: a.behave, Agent: a.slim,
		})
		if err != nil {
			return nil, fmt.Errorf("agents: %w", err)
		}
		a.server = memory{a.cluster.Server()}
		a.cluster.Server().Watch(a.observe)
		finish = a.run(context.Background(), a.cluster.Run)
		return a, nil
	}
	return backend, func() error { return finish() }
}

// run starts the nodes, and returns a func that ends them and returns their error.
func (a *Agents) run(ctx context.Context, nodes func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		err := nodes(ctx)
		a.fail(cmp.Or(err, context.Cause(ctx)))
		done <- err
	}()
	return func() error {
		cancel()
		return <-done
	}
}

// memory is the API server in memory.
type memory struct{ *statustest.Server }

func (m memory) create(pod *v1.Pod) error {
	m.Adopt(pod)
	return nil
}

func (m memory) end(n names, graceSeconds int64) error {
	_, err := m.Change(n.uid, func(pod *v1.Pod) {
		now := metav1.Now()
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &graceSeconds
	})
	return err
}

func (m memory) remove(n names) { m.Remove(n.uid) }

// pendingWait is how long the status of a pod that starts waits for the next. The events of a pod come
// from later statuses, and so the wait changes none.
const pendingWait = time.Second

// slim leaves out the features of an agent that the pods of templates do not use.
func (a *Agents) slim(o *node.Options) {
	o.Without = []string{"declared", "images", "volumes", "restart-memory", "mirrors"}
	o.Cluster.Coalesce = coalesce
}

// coalesce is node.Cluster.Coalesce of all agents.
func coalesce(c statusmanager.Change) time.Duration {
	if c.New.Phase == v1.PodPending {
		return pendingWait
	}
	return 0
}

// Cluster returns the nodes, for further faults and for measurements. The caller asserts the type of
// the backend that the func of New has made.
func (a *Agents) Cluster() *cluster.Cluster { return a.cluster }

// Name implements sim.Backend.
func (a *Agents) Name() string { return a.name }

// Bind implements sim.Backend: the pod is created on the API server, bound to its node.
func (a *Agents) Bind(_ time.Duration, p *sim.Pod) error {
	l := &life{pod: p, names: a.namesOf(p), last: sim.Bound}
	a.mu.Lock()
	a.mu.pods[l.NamespacedName] = l
	a.mu.longest = max(a.mu.longest, p.Work)
	a.mu.Unlock()
	if a.model.Bind <= 0 {
		a.create(l)
		return nil
	}
	l.timer = time.AfterFunc(a.model.Bind, func() { a.create(l) })
	return nil
}

func (a *Agents) create(l *life) {
	l.request.Lock()
	defer l.request.Unlock()
	a.mu.Lock()
	gone := a.mu.pods[l.NamespacedName] != l
	l.created = !gone
	a.mu.Unlock()
	if gone {
		return
	}
	template := a.template(l.pod.Shape)
	pod := &v1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name, pod.GenerateName, pod.UID, pod.Spec.NodeName = l.Namespace, l.Name, "", l.uid, l.pod.Node.Name
	// After the loss of a node the pod starts from the beginning.
	pod.Spec.RestartPolicy = v1.RestartPolicyAlways
	if l.pod.Work > 0 {
		pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
	}
	if err := a.server.create(pod); err != nil {
		a.fail(fmt.Errorf("agents: create pod %s of %s: %w", l.NamespacedName, l.pod.Name, err))
	}
}

// template returns the template of a shape for pods on the API server. Its pods share the template.
// It has the pull policies that an API server adds, so that a present image is not pulled again, and
// neither volumes nor variables, which no model of durations has.
func (a *Agents) template(shape *sim.Shape) *v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	template := a.mu.templates[shape]
	if template == nil {
		template = shape.Template.DeepCopy()
		template.Spec.Volumes = nil
		for _, list := range [][]v1.Container{template.Spec.InitContainers, template.Spec.Containers} {
			for i := range list {
				c := &list[i]
				c.ImagePullPolicy = cmp.Or(c.ImagePullPolicy, v1.PullIfNotPresent)
				c.Env, c.EnvFrom, c.VolumeMounts, c.VolumeDevices = nil, nil, nil, nil
			}
		}
		a.mu.templates[shape] = template
	}
	return template
}

// Evict implements sim.Backend: the pod is deleted on the API server.
func (a *Agents) Evict(_ time.Duration, p *sim.Pod, grace time.Duration) error {
	name := a.namesOf(p)
	a.mu.Lock()
	l := a.mu.pods[name.NamespacedName]
	created := l != nil && l.created
	if l != nil && !created {
		if l.timer != nil {
			l.timer.Stop()
		}
		delete(a.mu.pods, name.NamespacedName)
		a.add(sim.Ended, l)
	}
	a.mu.Unlock()
	if !created {
		return nil
	}
	l.request.Lock()
	defer l.request.Unlock()
	return a.server.end(name, int64((grace+time.Second-1)/time.Second))
}

// Lose implements sim.Backend.
func (a *Agents) Lose(_ time.Duration, n *sim.Node) error {
	a.mu.Lock()
	for _, p := range n.Pods {
		if l := a.mu.pods[a.namesOf(p).NamespacedName]; l != nil {
			l.stale, l.last = l.current, sim.Bound
		}
	}
	a.mu.Unlock()
	a.cluster.Node(n.Name).Lose()
	return nil
}

// Return implements sim.Backend.
func (a *Agents) Return(_ time.Duration, n *sim.Node) error {
	a.cluster.Node(n.Name).Return()
	return nil
}

// patience is the longest time without an event beyond the work of a pod.
const patience = 24 * time.Hour

// Next implements sim.Backend. It moves the time of the bubble forward, or waits in real time.
func (a *Agents) Next(until time.Duration) (sim.Event, bool, error) {
	for {
		a.settle()
		if e, found, err := a.take(until); found || err != nil {
			return e, found, err
		}
		wait := until - time.Since(a.born)
		if wait <= 0 {
			return sim.Event{}, false, nil
		}
		longest := a.longest() + patience
		select {
		case <-a.changed:
		case <-time.After(min(wait, longest)):
			if wait > longest {
				return sim.Event{}, false, fmt.Errorf("agents: no event of bound pods for %v", longest)
			}
		}
	}
}

// longest returns the longest work of the pods up to now.
func (a *Agents) longest() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.longest
}

// take returns the next event up to an instant: the lowest UID of an instant first, and the events of a
// pod in order.
func (a *Agents) take(until time.Duration) (sim.Event, bool, error) {
	a.mu.Lock()
	if a.mu.err != nil || len(a.mu.events) == 0 {
		defer a.mu.Unlock()
		return sim.Event{}, false, a.mu.err
	}
	slices.SortStableFunc(a.mu.events, func(x, y sim.Event) int {
		return cmp.Or(cmp.Compare(x.At, y.At), cmp.Compare(x.Pod.UID, y.Pod.UID), cmp.Compare(x.Kind, y.Kind))
	})
	e := a.mu.events[0]
	if e.At > until { // only in real time: the simulation is late
		a.mu.Unlock()
		return sim.Event{}, false, nil
	}
	a.mu.events = a.mu.events[1:]
	a.mu.Unlock()
	switch e.Kind {
	case sim.Pulled:
		for _, image := range e.Pod.Shape.Images {
			if size := a.model.ImageSizes[image]; size > 0 {
				a.snap.AddImage(e.Node, image, size)
			}
		}
	case sim.Ended:
		a.server.remove(a.namesOf(e.Pod))
	}
	return e, true, nil
}

// add records an event of this instant. The lock is held.
func (a *Agents) add(kind sim.EventKind, l *life) {
	l.last = kind
	a.mu.events = append(a.mu.events, sim.Event{At: time.Since(a.born), Kind: kind, Pod: l.pod, Node: l.pod.Node})
	a.changed.Notify()
}

// fail ends the run.
func (a *Agents) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.err = cmp.Or(a.mu.err, err)
	a.changed.Notify()
}

// latency is the duration of a call to the runtime. The images of a pod are present when its first
// container is created, which takes Model.Create.
func (a *Agents) latency(_ string, call fake.Call) time.Duration {
	if call.Op != fake.OpCreateContainer {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.mu.pods[types.NamespacedName{Namespace: call.Namespace, Name: call.Pod}]
	if l == nil || l.last >= sim.Pulled {
		return 0
	}
	a.add(sim.Pulled, l)
	return a.model.Create
}

// behave is the script of a container.
func (a *Agents) behave(pod *v1.Pod, _ runtime.ContainerSpec) fake.Script {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.mu.pods[nameOf(pod)]
	if l == nil {
		return fake.Script{}
	}
	return fake.Script{ExitAfter: l.pod.Work, ReadyAfter: l.pod.Shape.ReadyAfter, TermAfter: a.model.Stop, TermCode: 143}
}

// observe reads the status of a pod that the API server has stored.
func (a *Agents) observe(pod *v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.mu.pods[nameOf(pod)]
	if l == nil {
		return
	}
	status := &pod.Status
	if len(status.ContainerStatuses) > 0 {
		l.current = status.ContainerStatuses[0].ContainerID
	}
	switch {
	case status.Phase == v1.PodFailed && pod.DeletionTimestamp == nil:
		a.refused(l, status)
		return
	case status.Phase == v1.PodSucceeded || status.Phase == v1.PodFailed:
		a.add(sim.Ended, l)
		delete(a.mu.pods, l.NamespacedName)
		return
	case status.Phase != v1.PodRunning || pod.DeletionTimestamp != nil, l.current == l.stale:
		return // stale: the status is of the time before the loss of the node
	}
	if l.last < sim.Started {
		a.add(sim.Started, l)
	}
	if l.last < sim.ReadyNow && podfacts.IsTrue(status.Conditions, v1.PodReady) {
		a.add(sim.ReadyNow, l)
	}
}

// vanished ends a pod that is no longer on the API server, if no terminal status came before.
func (a *Agents) vanished(name types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.mu.pods[name]; l != nil {
		delete(a.mu.pods, name)
		a.add(sim.Ended, l)
	}
}

// refused ends the run: the node has not admitted the pod. The lock is held.
func (a *Agents) refused(l *life, status *v1.PodStatus) {
	if a.mu.err == nil {
		a.mu.err = fmt.Errorf("agents: node %s refuses pod %s of %s: %s: %s", l.pod.Node.Name, l.Name, l.pod.Name,
			status.Reason, strings.TrimSpace(status.Message))
	}
	a.changed.Notify()
}
