// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"slices"
	"strings"
)

// Feature is an ability that an agent may lack.
type Feature string

// The features that a schedule can do without.
const (
	FeatureDeadlines Feature = "deadlines" // spec.activeDeadlineSeconds ends a pod
	FeatureResizes   Feature = "resizes"   // resources of running containers change in place
	FeatureAdmission Feature = "admission" // pods are admitted by the limits of a node
	FeatureMirrors   Feature = "mirrors"   // static pods have mirror pods on the API server
	FeatureImages    Feature = "images"    // images are pulled, and unused images are removed
)

// ability is how schedules exercise a feature, or what every agent has: with a word of the command "node" on some nodes,
// with words of pods, or with steps that only pods of some shape can take. Its judges are for all scripts.
type ability struct {
	feature  Feature
	percent  int                                          // percentage of the schedules with the word, for agents with the feature
	word     func(g *generator) string                    // nil: every schedule takes the steps
	steps    []step                                       // of schedules with failing calls
	peaceful []step                                       // of peaceful schedules
	fields   func(g *generator, before string) (s string) // fields of pods, in addition to the fields before; nil: none
	check    func(*checker)                               // judges every history; nil: nothing to judge
	judge    func(*peace)                                 // judges peaceful ones; nil: nothing to judge
}

// step is an event in a schedule. Steps with a higher weight are more frequent.
type step struct {
	weight int
	do     func(*generator)
}

func abilities() []ability {
	return []ability{
		{feature: FeatureResizes, steps: []step{{6, (*generator).resize}, {3, (*generator).retune}}, peaceful: []step{{4, (*generator).resize}, {1, (*generator).retune}}},
		{feature: FeatureDeadlines, fields: (*generator).deadline},
		probing(), placing(), ruling(), environment(), mounting(), sharing(), hooking(), bursting(), debugging(), tampering(), serving(),
		{
			feature: FeatureMirrors, percent: 60, word: func(*generator) string { return " mirrors" },
			steps: []step{{3, (*generator).deleteMirror}}, peaceful: []step{{1, (*generator).deleteMirror}},
			check: (*checker).mirrors, judge: (*peace).mirrors,
		},
		{
			feature: FeatureImages, percent: 50, word: (*generator).images,
			steps: []step{{4, (*generator).registry}}, fields: (*generator).pulls,
			peaceful: []step{{2, func(g *generator) { g.lacking("registry down", "registry up") }}},
		},
	}
}

// equip chooses the abilities of the schedule, and returns the words for the node.
func (g *generator) equip() (words string) {
	for _, a := range abilities() {
		if !g.uses(a.feature) || a.word != nil && !g.chance(a.percent) {
			continue
		}
		if a.word != nil {
			words += a.word(g)
		}
		g.has = append(g.has, a)
	}
	return words
}

// uses reports whether the schedule may use a feature.
func (g *generator) uses(f Feature) bool { return !slices.Contains(g.without, f) }

// take takes one of the steps, including the steps of the abilities.
func (g *generator) take(steps []step) {
	for _, a := range g.has {
		if g.peaceful {
			steps = append(steps, a.peaceful...)
		} else {
			steps = append(steps, a.steps...)
		}
	}
	total := 0
	for _, s := range steps {
		total += s.weight
	}
	n := g.rand.IntN(total)
	for _, s := range steps {
		if n -= s.weight; n < 0 {
			s.do(g)
			return
		}
	}
}

func (g *generator) deadline(string) string {
	if seconds := pick(g, 20, 90, 400); g.chance(12) {
		return fmt.Sprintf(" deadline=%d", seconds)
	}
	return ""
}

// deleteMirror adds a step in which a user deletes the mirror pod of a static pod.
func (g *generator) deleteMirror() {
	if name, s := g.anyPod(); s.static {
		g.try(pick(g, "delete-mirror ", "evict-mirror ") + name)
	}
}

func (g *generator) images() string {
	if g.peaceful {
		return " images=0s"
	}
	return fmt.Sprintf(" images=%v", pick(g, "0s", "300ms", "2s", "20s"))
}

func (g *generator) pulls(string) string {
	return pick(g, "", "", "", " pull=Always", " pull=Always", " pull=Never")
}

func (g *generator) registry() {
	g.during("registry "+pick(g, "down", "hang"), "registry up")
}

// resize changes the cpu of a pod of the API server with a cpu request.
func (g *generator) resize() {
	name := g.resourceful()
	if name == "" {
		return
	}
	what := "cpu"
	if g.peaceful && g.chance(40) && strings.Contains(g.shapes[name].fields, " memory=") {
		what = "memory"
	}
	if !g.peaceful && g.chance(20) {
		g.say(fmt.Sprintf("fault f%d op=UpdateResources nth=1 %s", len(g.script.Lines), pick(g, "err", "lost", "hang")))
	}
	g.try(fmt.Sprintf("resize %s %s=%d", name, what, pick(g, 100, 200, 500, 1000, 3000)))
}

// resourceful returns a pod of the API server with resources, or "".
func (g *generator) resourceful() string {
	able := slices.DeleteFunc(slices.Clone(g.names), func(name string) bool {
		return g.shapes[name].static || !strings.Contains(g.shapes[name].fields, " cpu=")
	})
	if len(able) == 0 {
		return ""
	}
	return able[g.rand.IntN(len(able))]
}

// retune adds a step in which somebody changes the resources of a container while no agent runs. The next agent gives the
// container its resources again, if that needs no restart. On a node with limits, the next agent would also decide anew about
// rejected pods.
func (g *generator) retune() {
	name := g.resourceful()
	if name == "" || g.limited || strings.Contains(g.shapes[name].fields, " resizing=") {
		return
	}
	containers := g.shapes[name].containers
	g.say("agent stop")
	g.try(fmt.Sprintf("retune %s/%s cpu=%d burst=%d", name, containers[g.rand.IntN(len(containers))], pick(g, 100, 500, 700), pick(g, 1, 3)))
	g.say("agent start")
}
