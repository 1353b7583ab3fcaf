// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

// World is a machine with its sandboxes and containers: the records and processes of a backend. A
// World outlives its Runtimes. All methods are safe for concurrent use.
type World struct {
	opts   WorldOptions // complete, never written
	born   time.Time
	server *Script

	mu struct {
		sync.Mutex
		seq        uint64 // of pods, sandboxes and containers; makes IDs
		pods       map[types.UID]*pod
		order      []*pod // the pods in creation order
		sandboxes  map[runtime.SandboxID]*sandbox
		containers map[string]*container
		ips        uint32
		urls       uint64
		closed     bool

		scripts  []scripted
		faults   []*Injected
		journal  journal
		overlaps []Overlap
		streams  []*stream
	}
}

// NewWorld makes an empty World, whose clock starts now. The error names the invalid field of opts.
func NewWorld(opts WorldOptions) (*World, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	w := &World{opts: opts, born: time.Now(), server: &Script{}}
	w.mu.pods = map[types.UID]*pod{}
	w.mu.sandboxes = map[runtime.SandboxID]*sandbox{}
	w.mu.containers = map[string]*container{}
	w.mu.journal.limit = opts.JournalLimit
	return w, nil
}

// Close stops the World: no container exits by itself afterwards. Records stay. Only programs in
// real time need Close, to stop timers.
func (w *World) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.closed = true
	for _, c := range w.mu.containers {
		c.disarm()
	}
}

// pod has all records of a UID. A pod exists while the pod has a sandbox or container.
type pod struct {
	seq             uint64
	uid             types.UID
	namespace, name string
	sandboxes       []*sandbox   // oldest first
	containers      []*container // oldest first
}

type sandbox struct {
	id          runtime.SandboxID
	pod         *pod
	attempt     uint32
	ready       bool
	hostNetwork bool
	ip          string
	created     time.Time
}

// container is a container instance. The exit clears parts of spec.
type container struct {
	id      string
	pod     *pod
	sandbox *sandbox
	spec    runtime.ContainerSpec
	script  *Script // nil until started
	output  []Line  // the result of Script.Output

	resources *v1.ResourceRequirements // of the last update; nil: as created

	state                    runtime.State // the truth; never unknown
	lost                     bool          // reported as unknown
	terminating              bool          // got SIGTERM
	code                     int32
	reason, message          string
	created, started, exited time.Time
	timer                    *time.Timer // timer of the planned exit
	exitAt                   time.Time   // time of the planned exit; zero: never
	exitCode                 int32       // code of the planned exit
	exitReason               string
	done                     chan struct{} // closed at the exit; made by the first waiter
	execs                    []*context.CancelFunc
}

func (w *World) nextID(kind string) string {
	w.mu.seq++
	return fmt.Sprintf("%s-%08d", kind, w.mu.seq)
}

// podFor returns the record of a pod, and creates a missing record.
func (w *World) podFor(uid types.UID, namespace, name string) *pod {
	p := w.mu.pods[uid]
	if p == nil {
		w.mu.seq++
		p = &pod{seq: w.mu.seq, uid: uid, namespace: namespace, name: name}
		w.mu.pods[uid] = p
		w.mu.order = append(w.mu.order, p)
	}
	return p
}

// dropIfEmpty drops the record of a pod that has neither a sandbox nor a container.
func (w *World) dropIfEmpty(p *pod) {
	if len(p.sandboxes)+len(p.containers) > 0 || w.mu.pods[p.uid] != p {
		return
	}
	delete(w.mu.pods, p.uid)
	if i, ok := slices.BinarySearchFunc(w.mu.order, p.seq, func(p *pod, seq uint64) int { return cmp.Compare(p.seq, seq) }); ok {
		w.mu.order = slices.Delete(w.mu.order, i, i+1)
	}
}

func (w *World) dropContainer(c *container) {
	delete(w.mu.containers, c.id)
	c.pod.containers = slices.DeleteFunc(c.pod.containers, func(other *container) bool { return other == c })
	w.dropIfEmpty(c.pod)
}

func (w *World) dropSandbox(s *sandbox) {
	for _, c := range slices.Clone(s.pod.containers) {
		if c.sandbox == s {
			w.dropContainer(c)
		}
	}
	delete(w.mu.sandboxes, s.id)
	s.pod.sandboxes = slices.DeleteFunc(s.pod.sandboxes, func(other *sandbox) bool { return other == s })
	w.dropIfEmpty(s.pod)
}

// nodeIP is the address of pods on the host's network.
const nodeIP = "192.0.2.1"

// nextIP returns the addresses of PodCIDR in turn. The first address, which is that of the network,
// is left out. After the first round, nextIP skips addresses in use, unless all are in use.
func (w *World) nextIP() string {
	network := w.opts.PodCIDR.Addr().As4()
	first, size := binary.BigEndian.Uint32(network[:]), uint32(1)<<(32-w.opts.PodCIDR.Bits())-1
	for tries := uint32(0); ; tries++ {
		var address [4]byte
		binary.BigEndian.PutUint32(address[:], first+w.mu.ips%size+1)
		w.mu.ips++
		ip := netip.AddrFrom4(address).String()
		if w.mu.ips <= size || tries >= size || !w.inUse(ip) {
			return ip
		}
	}
}

func (w *World) inUse(ip string) bool {
	for _, s := range w.mu.sandboxes {
		if s.ip == ip {
			return true
		}
	}
	return false
}

func (c *container) call(op Op) Call {
	return Call{
		Op: op, UID: c.pod.uid, Namespace: c.pod.namespace, Pod: c.pod.name,
		Container: c.spec.Name, Image: c.spec.Image,
	}
}

func (s *sandbox) call(op Op) Call {
	return Call{Op: op, UID: s.pod.uid, Namespace: s.pod.namespace, Pod: s.pod.name}
}
