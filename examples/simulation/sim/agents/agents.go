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
	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager"
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
	model sim.Model
	snap  *sim.Snapshot
	// cluster runs until stop is called, and then sends its error to done.
	cluster *cluster.Cluster
	born    time.Time
	stop    context.CancelFunc
	done    chan error
	changed signal.Signal // an event, or a failure, has been added

	mu struct {
		sync.Mutex
		pods      map[types.UID]*life
		templates map[*sim.Shape]*v1.Pod // with defaults
		longest   time.Duration          // work of a pod
		events    []sim.Event
		err       error
	}
}

// life is the state of a bound pod.
type life struct {
	pod     *sim.Pod
	names   names
	created bool          // on the API server
	timer   *time.Timer   // of the creation; nil: none
	last    sim.EventKind // the last event
	// current is the ID of the first container, and stale its ID before the node was lost.
	current, stale string
}

// names identify a pod on the API server.
type names struct {
	uid  types.UID
	name string
}

func namesOf(p *sim.Pod) names {
	n := strconv.FormatUint(p.UID, 10)
	return names{types.UID(n), "pod-" + n}
}

// New returns a func for sim.Options.Backend, and a func that ends the agents after the run.
func New(o Options) (backend func(sim.BackendInput) (sim.Backend, error), stop func() error) {
	a := &Agents{changed: signal.New(), done: make(chan error, 1), stop: func() {}}
	a.mu.pods, a.mu.templates = map[types.UID]*life{}, map[*sim.Shape]*v1.Pod{}
	started := false
	backend = func(b sim.BackendInput) (sim.Backend, error) {
		if started {
			return nil, errors.New("agents: the backend is for a single run")
		}
		started = true
		a.model, a.snap, a.born = b.Model, b.Snapshot, time.Now()
		var err error
		a.cluster, err = cluster.New(cluster.Options{
			Nodes: o.Nodes, Root: o.Root, Seed: o.Seed, ImageSizes: b.Model.ImageSizes, Bandwidth: b.Model.Bandwidth,
			Latency: a.latency, Behave: a.behave, Agent: a.slim,
		})
		if err != nil {
			return nil, fmt.Errorf("agents: %w", err)
		}
		a.cluster.Server().Watch(a.observe)
		ctx, cancel := context.WithCancel(context.Background())
		a.stop = cancel
		go func() {
			err := a.cluster.Run(ctx)
			if ctx.Err() == nil {
				a.fail(err)
			}
			a.done <- err
		}()
		return a, nil
	}
	return backend, func() error {
		if a.cluster == nil {
			return nil
		}
		a.stop()
		return <-a.done
	}
}

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
func (a *Agents) Name() string { return "agents" }

// Bind implements sim.Backend: the pod is created on the API server, bound to its node.
func (a *Agents) Bind(_ time.Duration, p *sim.Pod) error {
	l := &life{pod: p, names: namesOf(p), last: sim.Bound}
	a.mu.Lock()
	a.mu.pods[l.names.uid] = l
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
	a.mu.Lock()
	gone := a.mu.pods[l.names.uid] != l
	l.created = !gone
	a.mu.Unlock()
	if gone {
		return
	}
	template := a.template(l.pod.Shape)
	pod := &v1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name, pod.GenerateName, pod.UID, pod.Spec.NodeName = cmp.Or(template.Namespace, "default"), l.names.name, "", l.names.uid, l.pod.Node.Name
	// After the loss of a node the pod starts from the beginning.
	pod.Spec.RestartPolicy = v1.RestartPolicyAlways
	if l.pod.Work > 0 {
		pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
	}
	a.cluster.Server().Adopt(pod)
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
	uid := namesOf(p).uid
	a.mu.Lock()
	l := a.mu.pods[uid]
	created := l != nil && l.created
	if l != nil && !created {
		if l.timer != nil {
			l.timer.Stop()
		}
		delete(a.mu.pods, uid)
		a.add(sim.Ended, l)
	}
	a.mu.Unlock()
	if !created {
		return nil
	}
	seconds := int64((grace + time.Second - 1) / time.Second)
	_, err := a.cluster.Server().Change(uid, func(pod *v1.Pod) {
		now := metav1.Now()
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &seconds
	})
	return err
}

// Lose implements sim.Backend.
func (a *Agents) Lose(_ time.Duration, n *sim.Node) error {
	a.mu.Lock()
	for _, p := range n.Pods {
		if l := a.mu.pods[namesOf(p).uid]; l != nil {
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

// Next implements sim.Backend. It moves the time of the bubble forward.
func (a *Agents) Next(until time.Duration) (sim.Event, bool, error) {
	for {
		synctest.Wait()
		if e, found, err := a.take(); found || err != nil {
			return e, found, err
		}
		wait := until - time.Since(a.born)
		if wait <= 0 {
			return sim.Event{}, false, nil
		}
		longest := a.longest() + patience
		timer := time.NewTimer(min(wait, longest))
		select {
		case <-a.changed:
		case <-timer.C:
			if wait > longest {
				return sim.Event{}, false, fmt.Errorf("agents: no event of bound pods for %v", longest)
			}
		}
		timer.Stop()
	}
}

// longest returns the longest work of the pods up to now.
func (a *Agents) longest() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.longest
}

// take returns the next event of this instant: the lowest UID first, and the events of a pod in order.
func (a *Agents) take() (sim.Event, bool, error) {
	a.mu.Lock()
	if a.mu.err != nil || len(a.mu.events) == 0 {
		defer a.mu.Unlock()
		return sim.Event{}, false, a.mu.err
	}
	slices.SortStableFunc(a.mu.events, func(x, y sim.Event) int {
		return cmp.Or(cmp.Compare(x.At, y.At), cmp.Compare(x.Pod.UID, y.Pod.UID), cmp.Compare(x.Kind, y.Kind))
	})
	e := a.mu.events[0]
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
		a.cluster.Server().Remove(namesOf(e.Pod).uid)
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
	if a.mu.err == nil {
		a.mu.err = err
	}
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
	l := a.mu.pods[call.UID]
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
	l := a.mu.pods[pod.UID]
	if l == nil {
		return fake.Script{}
	}
	return fake.Script{ExitAfter: l.pod.Work, ReadyAfter: l.pod.Shape.ReadyAfter, TermAfter: a.model.Stop, TermCode: 143}
}

// observe reads the status of a pod that the API server has stored.
func (a *Agents) observe(pod *v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.mu.pods[pod.UID]
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
		delete(a.mu.pods, pod.UID)
		return
	case status.Phase != v1.PodRunning || pod.DeletionTimestamp != nil, l.current == l.stale:
		return // stale: the status is of the time before the loss of the node
	}
	if l.last < sim.Started {
		a.add(sim.Started, l)
	}
	if l.last < sim.ReadyNow && isReady(status) {
		a.add(sim.ReadyNow, l)
	}
}

// refused ends the run: the node has not admitted the pod. The lock is held.
func (a *Agents) refused(l *life, status *v1.PodStatus) {
	if a.mu.err == nil {
		a.mu.err = fmt.Errorf("agents: node %s refuses pod %s of %s: %s: %s", l.pod.Node.Name, l.names.name, l.pod.Name,
			status.Reason, strings.TrimSpace(status.Message))
	}
	a.changed.Notify()
}

func isReady(status *v1.PodStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}
