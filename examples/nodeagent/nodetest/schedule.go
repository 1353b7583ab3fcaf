// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Schedule makes a random script, equal for equal seeds: a few pods of varied shape are edited,
// resized, removed and brought back, and their containers exit. The agent is restarted and crashes.
// The runtime, volumes, sources and the API server fail, hang and recover. At the end all faults
// are cleared, and calm and end judge the result. A third of the schedules are peaceful: no call
// fails or takes time, and everything is judged to the second. The script does not use the features
// in without.
func Schedule(seed uint64, without ...Feature) *Script {
	g := &generator{rand: rand.New(rand.NewPCG(seed, 0x6b65656c)), shapes: make(map[string]shape), without: without}
	g.script = &Script{Name: fmt.Sprintf("seed-%d", seed)}
	if seed%3 == 0 {
		return g.inPeace(seed)
	}
	node := fmt.Sprintf("node latency=%v seed=%d volumes=%v", pick(g, 0, 5*time.Millisecond, 50*time.Millisecond, time.Second), seed, pick(g, 0, 20*time.Millisecond, 2*time.Second))
	if g.chance(15) {
		node += " shutdown=stop"
	}
	if seed%2 == 0 {
		node += " echo"
	}
	if g.chance(50) {
		node += " deltas"
	}
	g.say(node + g.equip())
	for range 1 + g.rand.IntN(3) {
		g.newPod()
	}
	for range 5 + g.rand.IntN(20) {
		g.step()
		if g.chance(65) {
			g.rest()
		}
	}
	g.say("calm")
	g.say("end")
	return g.script
}

type generator struct {
	rand   *rand.Rand
	script *Script
	shapes map[string]shape // of all pods up to now, by name
	names  []string

	peaceful bool // no call fails or takes time
	limited  bool // the node has room for some pods only

	without []Feature
	has     []ability // abilities that the schedule exercises
}

// shape is the last description of a pod.
type shape struct {
	static     bool
	uid        int
	version    int
	fields     string
	containers []string
}

// say adds a command that must succeed.
func (g *generator) say(text string) { g.script.Lines = append(g.script.Lines, g.line(text)) }

// try adds a command that may fail, because its object may be gone by then.
func (g *generator) try(text string) { g.say("? " + text) }

func (g *generator) line(text string) Line {
	line := command(strings.Fields(text)...)
	line.Number = len(g.script.Lines) + 1
	return line
}

func (g *generator) chance(percent int) bool { return g.rand.IntN(100) < percent }

func pick[T any](g *generator, from ...T) T { return from[g.rand.IntN(len(from))] }

// rest advances time, mostly little, sometimes much.
func (g *generator) rest() {
	g.say("sleep " + pick(g, "1ms", "7ms", "40ms", "200ms", "900ms", "1s", "2s", "3s", "7s", "10s", "11s", "31s", "1m", "3m"))
}

// step adds an event.
func (g *generator) step() {
	g.take([]step{
		{10, (*generator).newPod}, {10, (*generator).edit}, {8, (*generator).remove}, {6, (*generator).bringBack}, {4, (*generator).replaceUID},
		{14, (*generator).exit}, {4, (*generator).exitAll}, {3, (*generator).behave}, {4, (*generator).meddle},
		{7, (*generator).fault}, {5, (*generator).outage}, {4, (*generator).apiTrouble}, {3, (*generator).sourceTrouble}, {2, (*generator).volumeTrouble},
		{4, func(g *generator) { g.say("agent restart") }}, {6, (*generator).crash}, {4, (*generator).crashAt}, {3, (*generator).suspend},
		{2, func(g *generator) { g.try("reboot") }}, {3, (*generator).down}, {3, (*generator).orphan},
	})
}

// newPod adds a pod, up to four, or six on a node with limits.
func (g *generator) newPod() {
	most := 4
	if g.limited {
		most = 6
	}
	if len(g.names) == most {
		g.edit()
		return
	}
	name := string(rune('p' + len(g.names)))
	g.names = append(g.names, name)
	s := shape{static: g.chance(65), uid: 1, version: 1}
	s.fields, s.containers = g.fields()
	g.shapes[name] = s
	for _, c := range s.containers {
		g.say(fmt.Sprintf("behave %s/%s %s", name, c, g.behaviour(strings.HasPrefix(c, "i"))))
	}
	g.bring(name)
}

// bring makes the pod wanted with its present shape.
func (g *generator) bring(name string) {
	s := g.shapes[name]
	verb := "? bind"
	if s.static {
		verb = "apply"
	}
	g.say(fmt.Sprintf("%s %s@%s-%d v=%d%s", verb, name, name, s.uid, s.version, s.fields))
}

// fields returns a pod's shape without its name.
func (g *generator) fields() (fields string, containers []string) {
	add := func(format string, args ...any) { fields += fmt.Sprintf(" "+format, args...) }
	main := pick(g, []string{"c"}, []string{"c"}, []string{"c", "d"})
	containers = append(containers, main...)
	add("main=%s", strings.Join(main, ","))
	if g.chance(25) {
		init := pick(g, []string{"i"}, []string{"i", "j"})
		add("init=%s", strings.Join(init, ","))
		containers = append(containers, init...)
	}
	startup := "c"
	if g.chance(30) {
		sidecars := pick(g, []string{"s"}, []string{"s"}, []string{"s", "t"})
		add("sidecar=%s", strings.Join(sidecars, ","))
		containers = append(containers, sidecars...)
		startup = pick(g, "c", "s", "s")
	}
	add("restart=%s", pick(g, "Always", "Always", "OnFailure", "Never"))
	add("grace=%d", pick(g, 0, 1, 2, 10, 30))
	if g.chance(40) {
		add("volume=%s", pick(g, "data", "data,cache"))
	}
	if g.chance(15) {
		add("emptydir=tmp")
	}
	if g.chance(15) {
		add("config=config")
	}
	if g.chance(15) {
		add("live=c%s", pick(g, "", "", ":3s", ":0s:3s", ":7s:60s"))
	}
	if g.chance(15) {
		add("ready=c%s", pick(g, "", "", ":3s", ":0s:2"))
	}
	if startup == "s" && g.chance(50) || g.chance(12) {
		add("startup=%s%s", startup, pick(g, "", "", ":2s", ":0s:1s"))
	}
	for _, a := range g.has {
		if a.fields != nil {
			fields += a.fields(g, fields)
		}
	}
	if g.limited {
		fields += g.needs()
	} else if g.chance(40) {
		add("cpu=%d", pick(g, 100, 500, 2000))
		if g.peaceful {
			fields += g.resizable(fields)
		}
	}
	if g.peaceful && g.chance(20) {
		add("gate=example.com/gate")
	}
	return fields, containers
}

// behaviour returns the behaviour of a container. With ends, the container exits by itself, as init
// containers must.
func (g *generator) behaviour(ends bool) string {
	term := pick(g, "", "", ",term=1s", ",term=5s", ",deaf")
	if ends {
		term += fmt.Sprintf(",exit=%s", pick(g, "1ns", "1s", "4s"))
		return pick(g, "serve"+term, "serve"+term, "serve,code=1"+term+" then serve"+term, "serve,oom,code=0"+term+" then serve"+term)
	}
	return pick(g,
		"serve"+term, "serve"+term, "serve"+term, "serve,ready=3s"+term,
		"exit=1ns then serve"+term, "exit=5s,code=1 then serve"+term, "exit=2s"+term, "exit=40s,code=3"+term, "exit=20s,oom"+term,
		"exit=1s,code=1 then exit=1s,code=2 then serve"+term, "cannot-start then serve"+term, "cannot-start", "ill"+term,
	)
}

// anyPod returns a pod, which may have been removed.
func (g *generator) anyPod() (name string, s shape) {
	name = g.names[g.rand.IntN(len(g.names))]
	return name, g.shapes[name]
}

func (g *generator) edit() {
	name, s := g.anyPod()
	s.version++
	if s.static && !g.limited && g.chance(30) {
		s.fields, s.containers = g.fields()
	}
	g.shapes[name] = s
	if s.static {
		g.bring(name)
	} else {
		g.try(fmt.Sprintf("edit %s v=%d", name, s.version))
	}
}

func (g *generator) remove() {
	name, s := g.anyPod()
	switch {
	case s.static:
		g.try("remove " + name)
	case g.chance(70):
		g.try("delete " + name + g.hurry())
	case g.chance(60):
		g.try("evict " + name)
	default:
		g.try("declare-failed " + name)
	}
}

// hurry returns the grace period of a deletion.
func (g *generator) hurry() string { return pick(g, "", "", " grace=1", " grace=5", " grace=60") }

func (g *generator) bringBack() {
	name, s := g.anyPod()
	if !s.static { // the API server assigns a new UID
		s.uid++
		g.shapes[name] = s
	} else if g.chance(50) {
		g.try("remove " + name)
		g.rest()
	}
	g.bring(name)
}

// replaceUID replaces a pod by another pod of the same name.
func (g *generator) replaceUID() {
	name, s := g.anyPod()
	s.uid++
	g.shapes[name] = s
	if !s.static {
		g.try("evict " + name)
	}
	g.bring(name)
}

func (g *generator) container() string {
	name, s := g.anyPod()
	return name + "/" + s.containers[g.rand.IntN(len(s.containers))]
}

func (g *generator) exit() {
	g.try(fmt.Sprintf("exit %s %d", g.container(), pick(g, 0, 1, 137)))
}

// exitAll ends all containers of a pod at the same instant, as an out-of-memory kill of the whole
// pod.
func (g *generator) exitAll() {
	name, s := g.anyPod()
	all := slices.Clone(s.containers)
	g.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, c := range all {
		g.try(fmt.Sprintf("exit %s/%s 137", name, c))
	}
}

func (g *generator) behave() {
	c := g.container()
	g.say(fmt.Sprintf("behave %s %s", c, g.behaviour(slices.Contains([]byte("ij"), c[len(c)-1]))))
}

// meddle changes the state of the runtime without the agent.
func (g *generator) meddle() {
	c := g.container()
	name, _, _ := strings.Cut(c, "/")
	g.try(pick(g, "replace "+c, "lose-records "+c, "lose-track "+c, "lose-address "+name))
}
