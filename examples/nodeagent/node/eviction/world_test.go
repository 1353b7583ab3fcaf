// SPDX-License-Identifier: Apache-2.0

package eviction_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/eviction"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
	"github.com/keelson-dev/keelson/internal/podfacts"
)

// capacity is that of every resource of a world. The units do not matter.
const capacity = 1000

// world is a node with pods whose usage a test changes. It implements eviction.Observer and
// eviction.Node.
type world struct {
	mu sync.Mutex // held by the calls of the manager, except while a call hangs, and by step

	rnd    *rand.Rand
	layout pressure.Layout
	pods   []*guest // in the order of their starts
	dead   int64    // space of ended containers
	images int64    // space of unused images
	system int64    // memory of other programs
	serial int

	faults bool // calls fail, hang, or leave something out
	silent bool // no reading at all

	levels   int // calls of Levels
	judged   []sample
	journal  []entry
	measured []pressure.Usage // the last result of Usage
}

// guest is a pod in a world.
type guest struct {
	pod                                     *v1.Pod
	memory, root, logs, volume, pids, inode int64
	done                                    chan struct{} // set by the first eviction
	grace                                   int64
	evicted                                 time.Time // the last eviction
	stuck                                   bool      // does not end
}

// sample is the answer of a call of Levels.
type sample struct {
	at       time.Time
	readings map[pressure.Signal]pressure.Reading
	again    bool // after reclaim steps
	failed   bool // the call returned an error
}

// entry is a call of Evict or Reclaim.
type entry struct {
	at       time.Time
	sample   int // number of samples before
	step     pressure.Reclaim
	eviction *pressure.Eviction // nil: a reclaim step
	waiting  int                // pods that were evicted less than 40 s before, and have not ended
}

func (w *world) add(change ...func(*guest)) *guest {
	w.serial++
	name := fmt.Sprintf("pod-%d", w.serial)
	g := &guest{pod: &v1.Pod{}}
	g.pod.Name, g.pod.UID = name, types.UID(name)
	g.pod.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}}}
	for _, c := range change {
		c(g)
	}
	w.pods = append(w.pods, g)
	return g
}

func (w *world) find(uid types.UID) *guest {
	for _, g := range w.pods {
		if g.pod.UID == uid {
			return g
		}
	}
	return nil
}

// end ends a pod. Its container stays on the disk.
func (w *world) end(g *guest) {
	w.pods = slices.DeleteFunc(w.pods, func(other *guest) bool { return other == g })
	w.dead += g.root
	if g.done != nil {
		close(g.done)
	}
}

// free returns the free part of each resource.
func (w *world) free() map[pressure.Signal]int64 {
	memory, pids, node, images, inodes := w.system, int64(0), int64(0), w.images+w.dead, int64(0)
	for _, g := range w.pods {
		memory, pids, inodes = memory+g.memory, pids+g.pids, inodes+g.inode
		node += g.logs + g.volume
		images += g.root
	}
	if !w.layout.ImagesApart {
		node += images
		images = node
	}
	return map[pressure.Signal]int64{
		pressure.MemoryAvailable: capacity - memory, pressure.PIDAvailable: capacity - pids, pressure.NodeFSAvailable: capacity - node,
		pressure.NodeFSInodesFree: capacity - inodes, pressure.ImageFSAvailable: capacity - images,
	}
}

// fails returns an error now and then, or waits for the end of ctx.
func (w *world) fails(ctx context.Context) error {
	switch {
	case !w.faults:
	case w.rnd.IntN(40) == 0:
		return errors.New("broken")
	case w.rnd.IntN(80) == 0:
		w.mu.Unlock()
		<-ctx.Done()
		w.mu.Lock()
		return ctx.Err()
	}
	return nil
}

// Levels implements eviction.Observer.
func (w *world) Levels(ctx context.Context) (eviction.Levels, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	again := len(w.journal) > 0 && w.journal[len(w.journal)-1].eviction == nil && w.journal[len(w.journal)-1].sample == len(w.judged)
	if err := w.fails(ctx); err != nil {
		w.judged = append(w.judged, sample{at: time.Now(), failed: true})
		return eviction.Levels{}, err
	}
	w.levels++
	readings := map[pressure.Signal]pressure.Reading{}
	for signal, free := range w.free() {
		if w.silent || w.faults && w.rnd.IntN(30) == 0 {
			continue
		}
		readings[signal] = pressure.Reading{Available: max(free, 0), Capacity: capacity, At: time.Now()}
	}
	w.judged = append(w.judged, sample{at: time.Now(), readings: readings, again: again})
	return eviction.Levels{Readings: readings, Layout: w.layout}, nil
}

// Usage implements eviction.Observer.
func (w *world) Usage(ctx context.Context, pods []*v1.Pod) (all []pressure.Usage, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fails(ctx); err != nil {
		return nil, err
	}
	for _, pod := range pods {
		u := pressure.Usage{Pod: pod}
		if g := w.find(pod.UID); g != nil && (!w.faults || w.rnd.IntN(20) > 0) {
			u.Known, u.Memory, u.Processes = true, g.memory, g.pids
			u.Containers = []pressure.ContainerUsage{{Name: "c", Memory: g.memory, Root: pressure.Disk{Bytes: g.root}, Logs: pressure.Disk{Bytes: g.logs}}}
			u.Volumes = []pressure.VolumeUsage{{Name: "v", IsLocal: true, Used: pressure.Disk{Bytes: g.volume, Inodes: g.inode}}}
		}
		all = append(all, u)
	}
	w.measured = all
	return all, nil
}

// Active implements eviction.Node.
func (w *world) Active() (pods []*v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.pods {
		pods = append(pods, g.pod)
	}
	return pods
}

// Limited implements eviction.Node.
func (w *world) Limited() []*v1.Pod {
	return slices.DeleteFunc(w.Active(), func(pod *v1.Pod) bool { return !pressure.HasLimits(pod) })
}

// Evict implements eviction.Node.
func (w *world) Evict(e pressure.Eviction) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := entry{at: time.Now(), sample: len(w.judged), eviction: &e}
	g := w.find(e.Pod.UID)
	if g == nil { // it has ended meanwhile
		done := make(chan struct{})
		close(done)
		return done
	}
	for _, other := range w.pods {
		if other.done != nil && other != g && time.Since(other.evicted) < 40*time.Second {
			one.waiting++
		}
	}
	w.journal = append(w.journal, one)
	if g.done == nil {
		g.done = make(chan struct{})
	}
	g.grace, g.evicted = 30, time.Now()
	if e.Grace != nil {
		g.grace = *e.Grace
	}
	g.stuck = w.faults && w.rnd.IntN(20) == 0
	return g.done
}

// Reclaim implements eviction.Node.
func (w *world) Reclaim(ctx context.Context, step pressure.Reclaim) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.journal = append(w.journal, entry{at: time.Now(), sample: len(w.judged), step: step})
	if err := w.fails(ctx); err != nil {
		return err
	}
	if step == pressure.ReclaimContainers {
		w.dead = 0
	} else {
		w.images = 0
	}
	return nil
}

func isCritical(p *v1.Pod) bool { return podfacts.IsCritical(p) }

func quantity(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }
