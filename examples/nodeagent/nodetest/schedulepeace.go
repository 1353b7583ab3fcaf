// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"strings"
)

// inPeace makes a schedule without failures: containers exit and fall ill, pods arrive, change and
// leave, and agents are replaced.
func (g *generator) inPeace(seed uint64) *Script {
	g.peaceful = true
	g.say(fmt.Sprintf("node seed=%d%s%s peaceful", seed, g.limits(), g.equip()))
	pods := 1 + g.rand.IntN(3)
	if g.limited {
		pods++ // so that they have to share
	}
	for range pods {
		g.newPod()
		g.look()
	}
	for range 4 + g.rand.IntN(10) {
		g.peacefulStep()
		g.look()
	}
	g.say("end")
	return g.script
}

// limits returns the limits of some nodes.
func (g *generator) limits() (room string) {
	if g.limited = g.chance(40) && g.uses(FeatureAdmission); !g.limited {
		return ""
	}
	for _, limit := range []string{
		fmt.Sprintf(" cpu=%d", pick(g, 1000, 2000, 4000)), fmt.Sprintf(" memory=%d", pick(g, 500, 1000, 2000)),
		fmt.Sprintf(" disk=%d", pick(g, 100, 200)), fmt.Sprintf(" pods=%d", pick(g, 1, 2, 3)),
	} {
		if g.chance(60) {
			room += limit
		}
	}
	g.limited = room != ""
	return room
}

// needs returns the requests of a pod on a node with limits.
func (g *generator) needs() (fields string) {
	for _, need := range []struct {
		percent int
		text    string
	}{
		{80, fmt.Sprintf(" cpu=%d", pick(g, 100, 500, 1000, 1500))}, {60, fmt.Sprintf(" memory=%d", pick(g, 64, 300, 700))},
		{30, fmt.Sprintf(" disk=%d", pick(g, 50, 120))}, {30, fmt.Sprintf(" initcpu=%d", pick(g, 100, 700, 1200))},
		{60, fmt.Sprintf(" priority=%d", pick(g, 0, 100, 2000000000, 2000001000))}, {4, " zone=b"}, {8, " near=" + pick(g, "a", "b", "!a", "b,a", "!a,b")}, {3, " sysctl=kernel.msgmax"},
	} {
		if g.chance(need.percent) {
			fields += need.text
		}
	}
	return fields
}

// resizable adds a memory request to a pod, and a restart for changes of memory or cpu to some
// containers.
func (g *generator) resizable(before string) (fields string) {
	if g.chance(50) {
		fields += fmt.Sprintf(" memory=%d", pick(g, 64, 256))
	}
	if g.chance(30) && strings.Contains(before, "restart=Always") && !strings.Contains(before, "rule=") && !strings.Contains(before, "own=") {
		fields += " resizing=" + pick(g, "cpu", "memory")
	}
	return fields
}

// condition sets or removes one of the pod's readiness gates, as another client.
func (g *generator) condition() {
	name, s := g.anyPod()
	if strings.Contains(s.fields, " gate=") {
		g.try(fmt.Sprintf("condition %s example.com/gate %s", name, pick(g, "True", "True", "False")))
	}
}

// look advances time, and judges the node afterwards.
func (g *generator) look() {
	g.say("sleep " + pick(g, "100ms", "1s", "2s", "4s", "7s", "11s", "16s", "21s", "35s", "45s", "80s", "3m", "11m"))
}

func (g *generator) peacefulStep() {
	g.take([]step{
		{3, (*generator).newPod}, {2, (*generator).edit}, {2, (*generator).peacefulRemove}, {1, (*generator).bringBack}, {1, (*generator).replaceUID},
		{6, (*generator).exit}, {2, (*generator).exitAll}, {1, (*generator).behave}, {5, (*generator).illness}, {1, (*generator).restart},
		{2, (*generator).condition},
	})
}

// restart replaces the agent. The next agent decides again about static pods that found no room.
func (g *generator) restart() {
	if !g.limited {
		g.say("agent restart")
	}
}

func (g *generator) peacefulRemove() {
	name, s := g.anyPod()
	if s.static {
		g.try("remove " + name)
	} else {
		g.try("delete " + name + g.hurry())
	}
}

// illness makes the probes of a container fail, or succeed again.
func (g *generator) illness() {
	g.try(pick(g, "sick ", "sick ", "well ") + g.container())
}
