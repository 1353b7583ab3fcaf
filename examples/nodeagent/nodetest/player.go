// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// player plays a script on a node. All calls are made by a single goroutine in a bubble.
type player struct {
	script   *Script
	root     string
	assemble Assemble // makes the agent
	node     *Node    // nil until the first command
	peaceful bool     // no call fails or takes time
	limits
	mirrors bool   // static pods have mirror pods
	depot   *depot // nil: every image is present
	store   *objects.Store
	keys    map[string]string // keys of the node's ConfigMap
	server  *statustest.Server

	wanted []*v1.Pod          // static pods, in the order of their arrival
	latest map[string]*v1.Pod // by name, including removed pods

	conditions map[types.UID]v1.PodCondition // set by another client
	tampered   map[types.UID]time.Time       // the last damage to a status by another client
	faults     []labelled
	sprung     <-chan struct{} // not nil: a crash-at is armed
	errs       []error         // errors reported by the node
}

// setup has the options of the command "node".
type setup struct {
	latency, volumes time.Duration
	seed             uint64
	stopPods         bool
	limits
	peaceful, echo  bool
	mirrors, images bool
	deltas          bool // sources submit changes pod by pod
	sets            bool // the agent and the API server share a process
	pull            time.Duration
}

// apart is the time between the immediate effects of a command and the next command, so that a
// history shows their order.
const apart = time.Microsecond

// agentPatience is the time after which a stopping agent is killed, as by service managers.
const agentPatience = 90 * time.Second

// play runs the script. It returns the first failed command with its line, and in any case the
// violations that are independent of commands.
func (p *player) play() (err error) {
	defer func() { err = errors.Join(err, p.finish()) }()
	for _, line := range p.script.Lines {
		if p.node == nil && line.Words[0] != "node" {
			if err := p.begin(setup{}); err != nil {
				return err
			}
		}
		p.remark(line)
		err := line.do(p)
		p.sleep(apart)
		switch {
		case line.Mode == MustFail && err == nil:
			return p.at(line, errors.New("it worked, and should not have"))
		case line.Mode == MustWork && err != nil:
			return p.at(line, err)
		}
		if p.peaceful && line.Words[0] == "sleep" {
			if err := p.look(); err != nil {
				return p.at(line, err)
			}
		}
	}
	return nil
}

func (p *player) remark(line Line) {
	if p.node != nil {
		p.node.history.say("> " + line.String())
	}
}

func (p *player) at(line Line, err error) error {
	return fmt.Errorf("%s:%d: %s: %w", p.script.Name, line.Number, line, err)
}

// finish ends the node and judges its history.
func (p *player) finish() error {
	if p.node == nil {
		return nil
	}
	history := p.node.History()
	p.clear("")
	p.node.close()
	errs := []error{errors.Join(p.errs...), Check(history), checkForms(history)}
	if p.peaceful {
		errs = append(errs, checkPeace(history, p.limits))
	}
	return errors.Join(errs...)
}

// begin makes the node.
func (p *player) begin(s setup) error {
	if p.node != nil {
		return errFirst
	}
	p.latest, p.conditions = make(map[string]*v1.Pod), make(map[types.UID]v1.PodCondition)
	p.tampered = make(map[types.UID]time.Time)
	world, err := fake.NewWorld(fake.WorldOptions{Latency: slowed(s.latencyOf), WriteLogs: true, Echo: s.echo})
	if err != nil {
		return err
	}
	if p.server, err = statustest.New(statustest.Options{Latency: s.latency / 2}); err != nil {
		return err
	}
	store, err := objects.NewStore(objects.Options{})
	if err != nil {
		return err
	}
	if s.images {
		p.depot = newDepot(world, s.pull)
	}
	node, err := newNode(Options{World: world, API: p.server, Mirrors: s.mirrors, volumeLatency: s.volumes, stopTimeout: agentPatience, sets: s.sets, Seed: s.seed, Assemble: p.assemble, Agent: func(o *node.Options) {
		o.Objects = store
		if p.depot != nil {
			p.depot.supply(o)
		}
		o.Allocatable, o.NodeLabels, o.NodeTaints = s.room, map[string]string{zoneLabel: zoneHere}, s.taints
		if s.stopPods {
			o.OnShutdown = node.StopPods
			o.StopTimeout = 2 * agentPatience // an agent that was killed ends, too
		}
	}}, p.root)
	if err != nil {
		return err
	}
	node.static.deltas, node.api.supply.deltas = s.deltas, s.deltas
	node.errorf = func(format string, args ...any) { p.errs = append(p.errs, fmt.Errorf(format, args...)) }
	node.fatalf = node.errorf
	p.node, p.peaceful, p.limits, p.mirrors = node, s.peaceful, s.limits, s.mirrors
	node.depot, node.api.taints = p.depot, s.taints
	p.store, p.keys = store, make(map[string]string)
	p.setKey("key", "value", true)
	return node.startAgent()
}

// latencyOf returns a random latency, equal for the same call at the same time.
func (s setup) latencyOf(c fake.Call) time.Duration {
	if s.latency <= 0 || c.Op == fake.OpWatch {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(c.Op))
	h.Write([]byte(c.UID))
	h.Write([]byte(c.Container))
	chance := rand.New(rand.NewPCG(s.seed^h.Sum64(), uint64(time.Now().UnixNano())))
	return time.Duration(chance.Int64N(int64(s.latency)))
}

func (p *player) uid(name string) types.UID {
	if pod := p.latest[name]; pod != nil {
		return pod.UID
	}
	return types.UID("uid-" + name)
}

var errNoSuchPod = errors.New("there is no such pod")

// apply makes a static pod wanted. It replaces a pod of the same name.
func (p *player) apply(pod *v1.Pod) error {
	pod.Spec.NodeName = p.node.name
	p.latest[pod.Name] = pod
	p.wanted = append(p.without(pod.Name), pod)
	p.node.Apply(p.wanted...)
	return nil
}

func (p *player) applyFile(name string) error {
	data, ok := p.script.file(name)
	if !ok {
		return fmt.Errorf("the script has no file %s", name)
	}
	decoder := &manifest.Decoder{NodeName: types.NodeName(p.node.name), Strict: true}
	pod, err := decoder.Pod([]byte(data), manifest.Origin{Kind: manifest.OriginFile, Location: "/" + name})
	if err != nil {
		return err
	}
	p.latest[strings.TrimSuffix(name, ".yaml")] = pod
	return p.apply(pod)
}

// without returns the wanted static pods except the pod with the name.
func (p *player) without(name string) (kept []*v1.Pod) {
	for _, pod := range p.wanted {
		if pod.Name != name {
			kept = append(kept, pod)
		}
	}
	return kept
}

func (p *player) remove(name string) error {
	if pod := p.latest[name]; pod != nil {
		name = pod.Name
	}
	kept := p.without(name)
	if len(kept) == len(p.wanted) {
		return errNoSuchPod
	}
	p.wanted = kept
	p.node.Apply(kept...)
	return nil
}

// sleep advances time, and handles a crash that was armed for that time.
func (p *player) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			synctest.Wait()
			p.bury()
			return
		case <-p.sprung:
			p.bury()
		}
	}
}

// bury handles a crash that was armed by crash-at.
func (p *player) bury() {
	select {
	case <-p.sprung:
		p.sprung = nil
		if l := p.node.life; l != nil && l.lease.isDead() { // the agent was not stopped meanwhile
			p.node.CrashAgent(1)
		}
	default:
	}
}
