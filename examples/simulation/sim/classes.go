// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"strings"
)

// maxCached is the number of cached results of nodes, over all classes of a Scheduler.
const maxCached = 4 << 20

// class caches the results of the local plug-ins for the pods of a Shape. A change of a node makes
// the results of this node stale, and no other result.
type class struct {
	shape   *Shape
	at      int // results are valid up to this position of Snapshot.log
	names   map[string]bool
	refused Decision // by a local PreFilter

	gens   []uint64
	status []*Status
	by     []int16   // index of the refusing Filter, or -1
	raw    [][]int64 // by score plug-in and node
	total  []int64   // weighted sum of raw

	fits              int
	fails             []int  // by Filter
	skipped, unscored uint64 // plug-ins that have nothing to say about the Shape
}

// Applier is an optional ability of a local Score: plug-ins that do not apply to a Shape are not
// asked, and add nothing.
type Applier interface {
	Applies(s *Shape) bool
}

// classOf returns the up-to-date class of a pod.
func (d *Scheduler) classOf(p *Pod) *class {
	k := d.classes[p.Shape]
	if k == nil {
		k = d.newClass(p)
		if len(d.order) >= max(16, maxCached/max(1, len(d.snapshot.nodes))) {
			delete(d.classes, d.order[0])
			d.order = d.order[1:]
		}
		d.classes[p.Shape] = k
		d.order = append(d.order, p.Shape)
	}
	c := &Cycle{Pod: p, Snapshot: d.snapshot, Rand: d.rand, scheduler: d, class: k}
	log := d.snapshot.log
	if len(log)-k.at >= len(d.snapshot.nodes) {
		for _, n := range d.snapshot.nodes {
			d.refresh(c, n)
		}
	} else {
		for _, i := range log[k.at:] {
			d.refresh(c, d.snapshot.nodes[i])
		}
	}
	k.at = len(log)
	return k
}

func (d *Scheduler) newClass(p *Pod) *class {
	nodes := len(d.snapshot.nodes)
	k := &class{
		shape: p.Shape, gens: make([]uint64, nodes), status: make([]*Status, nodes), by: make([]int16, nodes),
		total: make([]int64, nodes), fails: make([]int, len(d.profile.Filter)), raw: make([][]int64, len(d.profile.Score)),
		at: -nodes,
	}
	for i := range k.by {
		k.by[i] = -2
	}
	for i, w := range d.profile.Score {
		if a, ok := w.Score.(Applier); ok && !a.Applies(p.Shape) {
			k.unscored |= 1 << i
		} else if d.localScore[i] {
			k.raw[i] = make([]int64, nodes)
		}
	}
	c := &Cycle{Pod: p, Snapshot: d.snapshot, Rand: d.rand, scheduler: d, class: k}
	for _, plugin := range d.profile.PreFilter {
		if _, local := plugin.(Local); !local {
			continue
		}
		names, status := plugin.PreFilter(c)
		switch status.code() {
		case Success:
			k.names = intersect(k.names, names)
		case Skip:
			k.skipped |= d.bit(plugin)
		default:
			k.refused = Decision{Status: status, rejectors: d.bit(plugin)}
		}
	}
	return k
}

// refresh computes the results of a node anew, if the node has changed.
func (d *Scheduler) refresh(c *Cycle, n *Node) {
	k, i := c.class, n.index
	if k.gens[i] == n.gen && k.by[i] != -2 {
		return
	}
	k.count(k.by[i], -1)
	k.gens[i], k.status[i], k.by[i] = n.gen, nil, -1
	for f, plugin := range d.profile.Filter {
		if d.localFilter[f] && k.skipped&(1<<f) == 0 {
			if status := plugin.Filter(c, n); status != nil {
				k.status[i], k.by[i] = status, int16(f)
				break
			}
		}
	}
	k.count(k.by[i], 1)
	if k.by[i] >= 0 {
		return
	}
	k.total[i] = 0
	for s := range d.profile.Score {
		if k.raw[s] != nil {
			w := &d.profile.Score[s]
			raw := w.Score.Score(c, n)
			k.raw[s][i] = raw
			k.total[i] += raw * w.Weight
		}
	}
}

// count counts a node with the result by.
func (k *class) count(by int16, sign int) {
	switch {
	case by >= 0:
		k.fails[by] += sign
	case by == -1:
		k.fits += sign
	}
}

// rejectors returns the mask of the filters that refuse nodes.
func (k *class) rejectors() (mask uint64) {
	for i, n := range k.fails {
		if n > 0 {
			mask |= 1 << i
		}
	}
	return mask
}

// Explain returns the reasons of a failed cycle for people, in the form of kube-scheduler's message.
func (d *Scheduler) Explain(p *Pod, found Decision) string {
	counts := map[string]int{}
	k := d.classOf(p)
	c := &Cycle{Pod: p, Snapshot: d.snapshot, Rand: d.rand, scheduler: d, class: k}
	if found.Status != nil && len(found.Status.Reasons) > 0 {
		counts[found.Status.String()] = len(d.snapshot.nodes)
	} else {
		d.preFilter(c)
		for i, n := range d.snapshot.nodes {
			status := k.status[i]
			if status == nil {
				status, _ = d.run(c, n, false)
			}
			if status != nil {
				for _, reason := range status.Reasons {
					counts[reason]++
				}
			}
		}
	}
	reasons := make([]string, 0, len(counts))
	for reason, n := range counts {
		reasons = append(reasons, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(reasons)
	return fmt.Sprintf("0/%d nodes are available: %s.", len(d.snapshot.nodes), strings.Join(reasons, ", "))
}
