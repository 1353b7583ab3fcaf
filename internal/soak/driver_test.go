// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
)

// driver makes random changes to the node. It is one goroutine; long changes run in other
// goroutines.
type driver struct {
	*world
	rng    *rand.Rand
	names  []string // of pods
	counts map[string]int

	faults   sync.WaitGroup // that last
	agentOut sync.Mutex     // held while the agent is being killed and started
}

// die supplies the random numbers of one step: every step uses the same count, so that one step
// does not affect the next.
type die struct {
	which, of int
	length    float64
	shape     int
	code      int
	pause     time.Duration
}

// deed is a possible change. It reports whether the change was possible.
type deed struct {
	name   string
	weight int
	do     func(d *driver, x die) bool
}

var deeds = []deed{
	{"add", 14, (*driver).add},
	{"edit", 10, (*driver).edit},
	{"remove", 9, (*driver).remove},
	{"remove and come back", 4, (*driver).bounce},
	{"tell a container to end", 12, (*driver).order},
	{"kill a container", 10, (*driver).killContainer},
	{"kill a sandbox", 3, (*driver).killPause},
	{"kill a shim", 5, (*driver).killShim},
	{"change the ConfigMap", 6, (*driver).changeConfig},
	{"kill containerd", 4, (*driver).killEngine},
	{"stop containerd for a while", 4, (*driver).hangEngine},
	{"kill the agent", 6, (*driver).killAgent},
	{"end the agent", 2, (*driver).endAgent},
}

func newDriver(w *world, seed uint64, pods int) *driver {
	d := &driver{world: w, rng: rand.New(rand.NewPCG(seed, 0)), counts: make(map[string]int)}
	for i := range pods {
		d.names = append(d.names, "p"+strconv.Itoa(i))
	}
	return d
}

// step makes one change, and waits a while.
func (d *driver) step() {
	x := die{
		which: d.rng.IntN(1 << 20), of: d.rng.IntN(1 << 20), length: d.rng.Float64(),
		shape: d.rng.IntN(len(shapes)), code: d.rng.IntN(3), pause: time.Duration(100+d.rng.IntN(700)) * time.Millisecond,
	}
	total := 0
	for _, a := range deeds {
		total += a.weight
	}
	at := x.which % total
	for _, a := range deeds {
		if at -= a.weight; at < 0 {
			if a.do(d, x) {
				d.counts[a.name]++
			}
			break
		}
	}
	time.Sleep(x.pause)
}

// pick returns a pod with a manifest, or without.
func (d *driver) pick(x die, wanted bool) (name string, ok bool) {
	var fit []string
	d.ledger.mu.Lock()
	for _, name := range d.names {
		if d.ledger.book(name).wanted == wanted {
			fit = append(fit, name)
		}
	}
	d.ledger.mu.Unlock()
	if len(fit) == 0 {
		return "", false
	}
	return fit[x.of%len(fit)], true
}

func (d *driver) file(name string) string { return filepath.Join(d.manifests, name+".yaml") }

// write puts the next generation of a pod in place.
func (d *driver) write(name string, x die) {
	s := shapes[x.shape]
	number := d.ledger.number(name)
	pod := newPod(d.folder, name, number, s)
	text, err := manifestOf(pod)
	require.NoError(d, err)
	d.journal.say("%s: generation %d is written, a %s", name, number, s.name)
	d.ledger.write(name, s, pod, time.Now())
	d.put(d.manifests, name+".yaml", text)
}

func (d *driver) add(x die) bool {
	name, ok := d.pick(x, false)
	if ok {
		d.write(name, x)
	}
	return ok
}

func (d *driver) edit(x die) bool {
	name, ok := d.pick(x, true)
	if ok {
		d.write(name, x)
	}
	return ok
}

func (d *driver) remove(x die) bool {
	name, ok := d.pick(x, true)
	if ok {
		d.take(name)
	}
	return ok
}

func (d *driver) take(name string) {
	d.journal.say("%s: removed", name)
	require.NoError(d, os.Remove(d.file(name)))
	d.ledger.remove(name, time.Now())
}

// bounce removes a manifest and restores the same manifest: the pod with the same UID starts again,
// or does not notice.
func (d *driver) bounce(x die) bool {
	name, ok := d.pick(x, true)
	if !ok {
		return false
	}
	text, err := os.ReadFile(d.file(name))
	require.NoError(d, err)
	d.ledger.mu.Lock()
	number := d.ledger.book(name).latest().number
	d.ledger.mu.Unlock()
	require.NoError(d, os.WriteFile(d.folder.Anew(name, number), nil, 0o644))
	d.ledger.bounce(name)
	d.take(name)
	time.Sleep(time.Duration(x.length * float64(2*time.Second)))
	d.journal.say("%s: generation %d comes back", name, number)
	d.ledger.comeBack(name, time.Now())
	d.put(d.manifests, name+".yaml", text)
	return true
}

// mayFail returns a running instance whose pod has few enough failures, so that its next back-off
// stays short.
func (d *driver) mayFail(x die) (*instance, bool) {
	var fit []*instance
	for _, i := range d.ledger.alive() {
		d.ledger.mu.Lock()
		g := d.ledger.book(i.start.Pod).generation(i.start.Generation)
		c := g.of(i.start.Container)
		few := len(c.starts) <= 2 && c.starts[len(c.starts)-1] == i
		d.ledger.mu.Unlock()
		if few {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		return nil, false
	}
	return fit[x.of%len(fit)], true
}

func (d *driver) order(x die) bool {
	i, ok := d.mayFail(x)
	if ok {
		d.journal.say("%s: is told to end with %d", i.start, x.code)
		require.NoError(d, os.WriteFile(d.folder.Order(i.start.Instance), []byte(strconv.Itoa(x.code)), 0o644))
	}
	return ok
}

func (d *driver) killContainer(x die) bool {
	i, ok := d.mayFail(x)
	if !ok {
		return false
	}
	pids := d.processes()[process{i.start.Pod, i.start.Generation, i.start.Container}]
	for _, pid := range pids {
		d.journal.say("%s: process %d is killed", i.start, pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return len(pids) > 0
}

func (d *driver) killPause(x die) bool {
	pids := d.pauses()
	if len(pids) == 0 {
		return false
	}
	pid := pids[x.of%len(pids)]
	d.journal.say("the sandbox process %d is killed", pid)
	return syscall.Kill(pid, syscall.SIGKILL) == nil
}

func (d *driver) killShim(x die) bool {
	pids := d.engine.c.PIDs().Shims
	if len(pids) == 0 {
		return false
	}
	pid := pids[x.of%len(pids)]
	d.journal.say("the shim %d is killed", pid)
	d.after(2*time.Second, d.ledger.begin(&d.ledger.disturbed, telling))
	return syscall.Kill(pid, syscall.SIGKILL) == nil
}

func (d *driver) changeConfig(die) bool {
	d.writeConfig()
	d.journal.say("the ConfigMap has version %d", d.version)
	return true
}

func (d *driver) killEngine(x die) bool {
	if d.engine.busy() {
		return false
	}
	d.faults.Go(func() { d.engine.crash(lasts(x)) })
	return true
}

func (d *driver) hangEngine(x die) bool {
	if d.engine.busy() {
		return false
	}
	d.faults.Go(func() { d.engine.hang(lasts(x)) })
	return true
}

// lasts is from 0 to 5 s, more often short.
func lasts(x die) time.Duration {
	return time.Duration(x.length * x.length * 5 * float64(time.Second)).Truncate(time.Millisecond)
}

func (d *driver) killAgent(x die) bool { return d.restartAgent(x, syscall.SIGKILL) }

func (d *driver) endAgent(x die) bool { return d.restartAgent(x, syscall.SIGTERM) }

func (d *driver) restartAgent(x die, sig syscall.Signal) bool {
	if !d.agentOut.TryLock() {
		return false
	}
	d.faults.Go(func() {
		defer d.agentOut.Unlock()
		end := d.ledger.begin(&d.ledger.orphaning, 0)
		d.journal.say("agent: gets %s, for %s", sig, lasts(x))
		d.agent.signal(sig)
		time.Sleep(lasts(x))
		if err := d.agent.start(); err != nil {
			d.wrong("start the agent: %v", err)
		}
		d.after(2*time.Second, end)
	})
	return true
}

// after calls f some time from now, or when the world ends.
func (w *world) after(wait time.Duration, f func()) {
	timer := time.AfterFunc(wait, f)
	w.Cleanup(func() { timer.Stop() })
}

// calmDown removes pods with many failures, because their back-off of minutes would prolong the
// next pause. Then calmDown waits until all faults are over.
func (d *driver) calmDown() {
	d.faults.Wait()
	for _, name := range d.names {
		d.ledger.mu.Lock()
		b, often := d.ledger.book(name), false
		if g := b.latest(); b.wanted {
			for _, c := range g.containers {
				often = often || len(c.starts) > 3
			}
		}
		d.ledger.mu.Unlock()
		if often {
			d.write(name, die{shape: d.rng.IntN(len(shapes))})
		}
	}
	require.NoError(d, d.agent.start())
}

// removeAll takes every manifest away.
func (d *driver) removeAll() {
	for _, name := range d.names {
		if _, err := os.Stat(d.file(name)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		d.take(name)
	}
}
