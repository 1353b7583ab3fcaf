// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// History is the history of a node, observed from outside of its agents. Times count from the
// creation of the node's World. Each list is in order. Between lists, entries of the same instant
// have no order.
type History struct {
	Calls    fake.Journal       // the runtime's journal
	Told     []Told             // submissions of sources to agents
	Statuses []Published        // statuses published by agents
	Volumes  []VolumeEvent      // operations on volumes of VolumeDriver
	Images   []ImageEvent       // operations on images
	Events   []Event            // events about pods
	Requests statustest.Journal // of the API server
	Probes   []Probed           // attempts of probes that were answered
	Made     []Made             // containers that were created
	Mirrors  []MirrorEvent      // mirror pods on the API server
	Stored   []Stored           // versions of pods on the API server
	Changed  []version          // those of Stored that another client than the agent wrote
	Keys     []KeySet           // what the ConfigMap of a script's node was given
	Outages  []Outage           // of what a script's node needs
	Depot    bool               // the node has images, and a registry
	Marks    []Mark             // what happened to agents
	Overlaps error              // World.NoOverlap
	Taken    time.Duration      // time of the snapshot
	Began    time.Time          // of the history, on the agents' clock
}

// Told is a complete submission of a source, without mirror pods, that the agent has received.
type Told struct {
	At     time.Duration
	Source string
	Pods   []*v1.Pod
}

// Published is a status published by an agent.
type Published struct {
	At     time.Duration
	Pod    *v1.Pod // version of the agent's source
	Status v1.PodStatus
}

// Probed is a probe attempt with an answer.
type Probed struct {
	At        time.Duration
	UID       types.UID
	Container string
	ID        string // of the instance, in World's form
	Type      prober.Type
	Well      bool
}

// Event is an event about a pod.
type Event struct {
	At                    time.Duration
	Pod                   string // name of the pod
	UID                   types.UID
	Type, Reason, Message string
}

// Mark is a start or an end of the agent, or a remark.
type Mark struct {
	At   time.Duration
	Kind MarkKind
	Text string
}

// MarkKind is the kind of a Mark.
type MarkKind string

// The kinds of marks.
const (
	MarkAgentStarted   MarkKind = "agent started"
	MarkAgentStopped   MarkKind = "agent stopped"
	MarkAgentCrashed   MarkKind = "agent crashed"
	MarkAgentSuspended MarkKind = "agent suspended"
	MarkAgentResumed   MarkKind = "agent resumed"
	MarkRemark         MarkKind = "remark" // with the text Mark.Text
)

// History returns the history up to now. Its pointers are shared, and the caller must not modify
// the objects.
func (n *Node) History() History {
	h := n.history.snapshot()
	h.Calls, h.Overlaps, h.Taken = n.World.Journal(), n.World.NoOverlap(), n.World.Now()
	h.Began = time.Now().Add(-h.Taken)
	h.Volumes, h.Images, h.Depot = n.disk.events(), n.depot.events(), n.depot != nil
	if n.opts.API != nil {
		h.Requests = n.opts.API.Journal()
	}
	return h
}

// recorder records the calls of agents and the answers of their environment.
type recorder struct {
	world *fake.World

	mu struct {
		sync.Mutex
		History
		latest map[types.UID]v1.PodStatus
		sick   map[sickness]bool
	}
}

// sickness identifies a container whose probes fail.
type sickness struct {
	uid       types.UID
	container string
}

func newRecorder(world *fake.World) *recorder {
	r := &recorder{world: world}
	r.mu.latest = make(map[types.UID]v1.PodStatus)
	r.mu.sick = make(map[sickness]bool)
	return r
}

func (r *recorder) snapshot() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.History
}

func (r *recorder) last(uid types.UID) v1.PodStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.latest[uid]
}

func (r *recorder) told(source string, pods []*v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.Told = append(r.mu.Told, Told{r.world.Now(), source, pods})
}

// published returns a node.Options.Status for the holder of a lease.
func (r *recorder) published(l *lease) func(*v1.Pod, v1.PodStatus) {
	return func(pod *v1.Pod, status v1.PodStatus) {
		if l.isDead() {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.mu.latest[pod.UID] = status
		r.mu.Statuses = append(r.mu.Statuses, Published{r.world.Now(), pod, status})
	}
}

func (r *recorder) setSick(uid types.UID, container string, sick bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.sick[sickness{uid, container}] = sick
}

func (r *recorder) sickNow(uid types.UID, container string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.sick[sickness{uid, container}]
}

func (r *recorder) probed(t prober.Target, well bool) {
	id, _ := runtime.ParseContainerID(t.Instance.ID) // the caller has parsed the ID
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.Probes = append(r.mu.Probes, Probed{r.world.Now(), t.Pod.UID, t.Container.Name, id.ID, t.Type, well})
}

func (r *recorder) setKey(key, value string, there bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.Keys = append(r.mu.Keys, KeySet{r.world.Now(), key, value, there})
}

func (r *recorder) made(id runtime.ContainerID, spec *runtime.ContainerSpec) {
	made := Made{At: r.world.Now(), ID: id.ID, Env: make(map[string]string)}
	if spec.Pod != nil {
		made.UID = spec.Pod.UID
	}
	for _, e := range spec.Env {
		made.Env[e.Name] = e.Value
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.Made = append(r.mu.Made, made)
}

func (r *recorder) outage(what string, down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.Outages = append(r.mu.Outages, Outage{r.world.Now(), what, down})
}

func (r *recorder) mark(kind MarkKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.Marks = append(r.mu.Marks, Mark{At: r.world.Now(), Kind: kind})
}

func (r *recorder) say(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.Marks = append(r.mu.Marks, Mark{r.world.Now(), MarkRemark, text})
}

// Event implements runtime.EventRecorder.
func (r *recorder) Event(object apiruntime.Object, eventType, reason, message string) {
	ref, ok := object.(*v1.ObjectReference)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.Events = append(r.mu.Events, Event{r.world.Now(), ref.Name, ref.UID, eventType, reason, message})
}
