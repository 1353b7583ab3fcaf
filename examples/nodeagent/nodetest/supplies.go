// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

// Supplies for the creation of a container: keys of ConfigMaps, images, volumes. Each ability that
// removes a supply for some time records the time.

// lack is a time in which a container could not be created because of a missing supply, and the
// delay until the agent may notice the end of that time.
type lack struct{ from, to, late time.Duration }

// end is the time at which the agent has noticed the end at the latest.
func (l lack) end() time.Duration { return min(l.to, forever/2) + l.late }

// supplied returns the time from which a due container has all its supplies, or forever, and the
// tolerated delay of its creation. A container that waits may be edited, and then needs the supplies
// of its new manifest.
func (p *peace) supplied(uid types.UID, c *v1.Container, due time.Duration) (from, late time.Duration) {
	for {
		if pod := p.manifest(uid, due); pod != nil {
			if ref, ok := runtime.Find(pod, c.Name); ok {
				c = ref.Container(pod)
			}
		}
		from, more := after(p.lacks(c), due)
		late = max(late, more)
		if edit := p.editedAfter(uid, due); edit < from {
			from = edit
		}
		if from == due || from == forever {
			return from, late
		}
		due = from
	}
}

// editedAfter returns the time of the next manifest of a pod, or forever.
func (p *peace) editedAfter(uid types.UID, at time.Duration) time.Duration {
	for _, t := range p.told[uid] {
		if t.At > at {
			return t.At
		}
	}
	return forever
}

// lacks returns the times in which a supply of a container was missing.
func (p *peace) lacks(c *v1.Container) []lack {
	return slices.Concat(p.keysLacking(c), p.imagesLacking(c))
}

// after returns the time from which none of the lacks applies, and the tolerated delay: an agent may
// notice the end of every lack that it has met late, and meet the next lack before.
func after(all []lack, due time.Duration) (from, late time.Duration) {
	from = due
	for i := 0; i >= 0; {
		if i = slices.IndexFunc(all, func(l lack) bool { return l.from <= from && from < l.to }); i >= 0 {
			from = all[i].to
		}
	}
	if from == forever {
		return from, 0
	}
	for _, l := range all {
		if l.from < from && l.to > due {
			late = max(late, l.late)
		}
	}
	return from, longer(all, from, late)
}

// longer returns the tolerated delay of a creation that is due at from: within the delay, an agent may
// meet further lacks.
func longer(all []lack, from, late time.Duration) time.Duration {
	for i := 0; i >= 0 && late < forever/2; {
		if i = slices.IndexFunc(all, func(l lack) bool { return l.from > from && l.from <= from+late && l.end() > from+late }); i < 0 {
			continue
		}
		late = all[i].end() - from
	}
	return late
}

// Outage is the begin or the end of a time in which a supply of a node was missing.
type Outage struct {
	At   time.Duration
	What string // "registry" or "volumes", outageAPI or outageWatch
	Down bool
}

// outages returns the times in which a supply was missing.
func (c *checker) outages(what string, late time.Duration) (all []lack) {
	for _, o := range c.h.Outages {
		last := len(all) - 1
		switch {
		case o.What != what:
		case o.Down && (last < 0 || all[last].to < forever):
			all = append(all, lack{o.At, forever, late})
		case !o.Down && last >= 0 && all[last].to == forever:
			all[last].to = o.At
		}
	}
	return all
}

// The delays until agents notice the end of an outage: their back-off grows to two or five minutes.
const (
	mountedLate = 2*time.Minute + 30*time.Second
	pulledLate  = 5*time.Minute + 30*time.Second
)

// volumesLacking returns the times in which the volumes of a pod could not be set up.
func (p *peace) volumesLacking(pod *v1.Pod) []lack {
	if slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.FlexVolume != nil }) {
		return p.outages("volumes", mountedLate)
	}
	return nil
}

// mountedAfter is after for the volumes of a pod. An agent sets volumes up before containers are due, and may
// have met a lack that ended before.
func (p *peace) mountedAfter(pod *v1.Pod, due time.Duration) (from, late time.Duration) {
	all := p.volumesLacking(pod)
	from, late = after(all, due)
	for _, l := range all {
		if l.to <= due {
			late = max(late, l.end()-due)
		}
	}
	return from, late
}

// unmounted reports whether the agent of that time cannot set up the volumes of a pod. Such an
// agent starts and stops no containers of the pod, and publishes only the containers that it has
// found.
func (p *peace) unmounted(pod *v1.Pod, at time.Duration) bool {
	all := p.volumesLacking(pod)
	for i, l := range all {
		if l.from > at || !p.agentBetween(l.from, min(l.to, at)) {
			continue
		}
		for _, next := range all[i+1:] {
			if next.from < l.end() {
				l.to = next.to // the agent may not notice the time between them
			}
		}
		if at < l.end() {
			return true
		}
	}
	return false
}

// awaitsVolumes reports whether the volumes of a pod cannot be had, or could not until lately.
func (p *peace) awaitsVolumes(pod *v1.Pod) bool {
	return slices.ContainsFunc(p.volumesLacking(pod), func(l lack) bool { return l.to == forever || p.h.Taken < l.to+l.late })
}

// imagesLacking returns the times in which the image of a container could not be pulled.
func (p *peace) imagesLacking(c *v1.Container) (all []lack) {
	if !p.h.Depot {
		return nil
	}
	away := []lack{{0, forever, retried}}
	for _, e := range p.h.Images {
		switch last := len(away) - 1; {
		case e.Image != c.Image:
		case e.What == ImagePulled && away[last].to == forever:
			away[last].to = e.At
		case e.What == ImageRemoved && away[last].to < forever:
			away = append(away, lack{e.At, forever, retried})
		}
	}
	down := p.outages("registry", pulledLate)
	switch c.ImagePullPolicy {
	case v1.PullNever:
		return away
	case v1.PullAlways:
		return down
	}
	for _, a := range away {
		for _, d := range down {
			if from, to := max(a.from, d.from), min(a.to, d.to); from < to {
				all = append(all, lack{from, to, pulledLate})
			}
		}
	}
	return all
}

// lacked reports whether the first init container or, without init containers, all containers of a pod
// had to wait for a supply when the pod was due.
func (p *peace) lacked(pod *v1.Pod, due time.Duration) bool {
	if from, _ := after(p.volumesLacking(pod), due); from > due {
		return true
	}
	first := allContainers(pod)
	if len(pod.Spec.InitContainers) > 0 {
		first = []*v1.Container{&pod.Spec.InitContainers[0]}
	}
	return !slices.ContainsFunc(first, func(c *v1.Container) bool {
		from, _ := p.supplied(pod.UID, c, due)
		return from == due
	})
}

func mounting() ability {
	return ability{peaceful: []step{{2, func(g *generator) { g.lacking("volumes fail-set-up", "volumes work") }}}}
}

// lacking removes a supply of a peaceful node for some time.
func (g *generator) lacking(begin, end string) {
	g.say(begin)
	g.look()
	for g.chance(50) {
		g.peacefulStep()
		g.look()
	}
	g.say(end)
}
