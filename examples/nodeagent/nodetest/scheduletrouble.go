// SPDX-License-Identifier: Apache-2.0

package nodetest

import "fmt"

// The troubles of a schedule. Each begins, and usually ends, before the next.

func (g *generator) during(begin, end string) {
	g.say(begin)
	g.rest()
	if g.chance(40) {
		g.step()
		g.rest()
	}
	if end != "" {
		g.say(end)
	}
}

// fault makes some calls fail.
func (g *generator) fault() {
	op := pick(g, "RunSandbox", "StopSandbox", "RemoveSandbox", "CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "PodStatus", "List", "Exec", "UpdateResources")
	how := pick(g, "err", "err", "lost", "lost", "hang", "lost hang", "latency=3s")
	when := pick(g, "nth=1", "nth=1", "nth=2", "times=2", "times=5", fmt.Sprintf("for=%s", pick(g, "1s", "10s", "1m")))
	g.say(fmt.Sprintf("fault f%d op=%s %s %s", len(g.script.Lines), op, when, how))
	if g.chance(30) {
		g.rest()
		g.say("clear")
	}
}

func (g *generator) outage() {
	switch g.rand.IntN(3) {
	case 0:
		g.during("runtime down", "runtime up")
	case 1:
		g.during("runtime hang", "runtime up")
	default:
		g.say("break-watch")
	}
}

func (g *generator) apiTrouble() {
	how := pick(g, "down", "down", "hang", "lossy", "lossy", "busy", "overloaded", "conflict", "forbidden", "invalid", "broken")
	g.during("api "+how+pick(g, "", "", "", " only=patch", " only=delete", " only=get"), "api up")
}

func (g *generator) sourceTrouble() {
	g.during("source "+pick(g, "silent", "silent", "garbled", "empty"), "source fine")
}

func (g *generator) volumeTrouble() { g.during("volumes fail", "volumes work") }

func (g *generator) crash() {
	g.say(fmt.Sprintf("crash seed=%d", g.rand.IntN(1000)))
	if g.chance(50) {
		g.rest()
	}
	g.say("agent start")
}

// crashAt crashes the agent at a call, if the agent makes the call soon.
func (g *generator) crashAt() {
	op := pick(g, "RunSandbox", "CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "RemoveSandbox", "StopSandbox", "PatchStatus", "DeletePod", "SetUp", "TearDown", "MountDevice", "UnmountDevice")
	g.say(fmt.Sprintf("crash-at %s nth=%d%s", op, 1+g.rand.IntN(2), pick(g, "", " done")))
	if g.chance(60) {
		pick(g, g.edit, g.remove, g.exit, g.bringBack)()
	}
	g.rest()
	g.say("agent start")
}

func (g *generator) suspend() { g.during("agent suspend", "agent resume") }

// down stops the agent for a while, with events meanwhile.
func (g *generator) down() {
	g.say("agent stop")
	for range 1 + g.rand.IntN(3) {
		pick(g, g.edit, g.remove, g.exit, g.bringBack, g.replaceUID)()
		g.rest()
	}
	g.say("agent start")
}

// orphan removes a pod while no agent runs. The next agent finds containers without a configured
// pod, and the pod comes back, maybe while the agent still stops them.
func (g *generator) orphan() {
	name, s := g.anyPod()
	g.say("agent stop")
	if s.static {
		g.try("remove " + name)
	} else {
		g.try("evict " + name)
	}
	g.say("agent start")
	g.say("sleep " + pick(g, "0s", "1ms", "40ms", "900ms", "2s", "7s"))
	if !s.static {
		s.uid++
		g.shapes[name] = s
	}
	g.bring(name)
}
