// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/runtime/fake"
)

// action carries out a command.
type action func(p *player) error

// verb is a kind of command. read parses the words and returns the action. If the words are
// invalid, the action is not used.
type verb struct {
	name, usage, about string
	read               func(a *args) action
}

// verbs returns all commands in the order of their description.
func verbs() []verb {
	return slices.Concat(worldVerbs(), podVerbs(), containerVerbs(), faultVerbs(), agentVerbs(), []verb{
		{"sleep", "DURATION", "let virtual time go by", readSleep},
		{"expect", expectations, "fail unless it is so; see below", func(a *args) action { return a.expectation() }},
		{"within", "DURATION expect …", "fail unless it becomes so in time", readWithin},
		{"calm", "[DURATION]", "end all faults, have an agent, wait (15m), and fail unless every pod is as it should be", readCalm},
		{"end", "", "remove all pods, wait ten minutes, and fail unless nothing of them is left", func(*args) action { return (*player).end }},
	})
}

// Commands describes the commands of scripts, one per line.
func Commands() string {
	var b strings.Builder
	for _, v := range verbs() {
		fmt.Fprintf(&b, "%s: %s\n", strings.TrimSpace(v.name+" "+v.usage), v.about)
	}
	return b.String()
}

// compile parses a command.
func compile(words []string) (action, error) {
	all := verbs()
	i := slices.IndexFunc(all, func(v verb) bool { return v.name == words[0] })
	if i < 0 {
		return nil, fmt.Errorf("there is no command %q", words[0])
	}
	a := &args{words: words[1:]}
	do := all[i].read(a)
	if err := a.err(); err != nil {
		return nil, fmt.Errorf("%s %s: %w", all[i].name, all[i].usage, err)
	}
	return do, nil
}

func worldVerbs() []verb {
	return []verb{{
		"node", "[latency=DURATION] [seed=N] [volumes=DURATION] [shutdown=stop] [cpu=MILLICORES] [memory=MIB] [disk=MIB] [pods=N] [taint=KEY:EFFECT] [mirrors] [images=DURATION] [peaceful] [echo] [deltas] [sets]",
		"first command: calls to the runtime take up to latency each, volumes as long as they are said to, and an agent that is stopped stops its pods; pods find so much room, any if nothing is said; static pods have mirror pods; images are pulled, which takes so long, and removed when nothing uses them; on a peaceful node nothing fails nor takes time, and everything is judged to the second; with echo the runtime hints at what its calls have done, too, as containerd does; with deltas the sources submit changes pod by pod; with sets the agent and the API server share a process",
		func(a *args) action {
			s := setup{latency: a.duration("latency"), seed: uint64(a.number("seed", 1)), volumes: a.duration("volumes"), limits: limits{a.allocatable(), a.taints()}, peaceful: a.flag("peaceful"), mirrors: a.flag("mirrors"), echo: a.flag("echo"), deltas: a.flag("deltas"), sets: a.flag("sets")}
			if word, ok := a.option("images"); ok {
				s.images, s.pull = true, a.toDuration(word)
			}
			if v, ok := a.option("shutdown"); ok {
				if s.stopPods = v == "stop"; !s.stopPods {
					a.fail("shutdown=%s: only stop is known", v)
				}
			}
			return func(p *player) error { return p.begin(s) }
		},
	}}
}

func podVerbs() []verb {
	named := func(f func(p *player, name string) error) func(*args) action {
		return func(a *args) action {
			name := a.next("NAME")
			return func(p *player) error { return f(p, name) }
		}
	}
	return []verb{
		{"apply", podFields, "a static pod is wanted, as described or as in NAME.yaml at the end of the script; it takes the place of one of its name", readApply},
		{"remove", "NAME", "a static pod is not wanted any more", named((*player).remove)},
		{"bind", podFields, "a pod on the API server is bound to the node", func(a *args) action {
			pod := a.pod()
			return func(p *player) error { return p.bind(pod) }
		}},
		{"edit", "NAME v=N", "the images of a pod on the API server change", func(a *args) action {
			version, name := a.number("v", 1), a.next("NAME")
			return func(p *player) error { return p.edit(name, version) }
		}},
		{"resize", "NAME cpu=MILLICORES|memory=MIB", "the cpu or memory of the regular containers of a pod on the API server changes, if they have any", readResize},
		{"debug", "POD/CONTAINER", "a user adds an ephemeral container to a pod on the API server", func(a *args) action {
			pod, container := a.container()
			return func(p *player) error { return p.debug(pod, container) }
		}},
		{"condition", "NAME TYPE True|False", "somebody else gives a pod on the API server a condition", func(a *args) action {
			name, kind, is := a.next("NAME"), a.next("TYPE"), a.choice("status", "True", "False")
			return func(p *player) error {
				return p.setCondition(name, v1.PodCondition{Type: v1.PodConditionType(kind), Status: v1.ConditionStatus(is), LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second))})
			}
		}},
		{"delete", "NAME [grace=SECONDS]", "somebody deletes a pod on the API server, or again with a shorter grace period (30)", func(a *args) action {
			grace, name := int64(a.number("grace", 30)), a.next("NAME")
			return func(p *player) error { return p.delete(name, grace) }
		}},
		{"delete-mirror", "NAME", "a user deletes the mirror pod of a static pod", named((*player).deleteMirror)},
		{"evict-mirror", "NAME", "a user deletes it by force", named((*player).evictMirror)},
		{"evict", "NAME", "somebody deletes it by force, with no regard to the node", named((*player).evict)},
		{"tamper", "NAME phase|conditions|fields|containers|foreign", "another client changes a part of its status on the API server", func(a *args) action {
			name, part := a.next("NAME"), a.choice("part", tamperPhase, tamperConditions, tamperFields, tamperContainers, tamperForeign)
			return func(p *player) error { return p.tamper(name, part) }
		}},
		{"declare-failed", "NAME", "somebody sets its phase to Failed on the API server", named((*player).declareFailed)},
	}
}

func readResize(a *args) action {
	for _, n := range needs[:2] {
		if amount := a.number(n.word, 0); amount > 0 {
			name := a.next("NAME")
			return func(p *player) error { return p.resize(name, n, amount) }
		}
	}
	a.fail("neither cpu nor memory is said")
	return nil
}

func readApply(a *args) action {
	if len(a.words) > 0 && strings.HasSuffix(a.words[0], ".yaml") {
		file := a.next("NAME")
		return func(p *player) error { return p.applyFile(file) }
	}
	pod := a.pod()
	return func(p *player) error { return p.apply(pod) }
}

func containerVerbs() []verb {
	on := func(f func(p *player, pod, container string) error) func(*args) action {
		return func(a *args) action {
			pod, container := a.container()
			return func(p *player) error { return f(p, pod, container) }
		}
	}
	return []verb{
		{"behave", "POD/CONTAINER BEHAVIOUR [then BEHAVIOUR]…", "what its instances do from their next start on, the first by restart count 0", func(a *args) action {
			pod, container := a.container()
			scripts := a.behaviours()
			return func(p *player) error {
				p.node.World.Script(fake.Target{Pod: pod, Container: container}, scripts...)
				return nil
			}
		}},
		{"exit", "POD/CONTAINER CODE", "it exits by itself, now", func(a *args) action {
			pod, container := a.container()
			code := a.toNumber(a.next("CODE"))
			return func(p *player) error { return p.node.World.Kill(p.uid(pod), container, int32(code)) }
		}},
		{"sick", "POD/CONTAINER", "its probes fail, whatever its behaviour says", on(func(p *player, pod, c string) error { return p.feels(pod, c, true) })},
		{"well", "POD/CONTAINER", "its probes are as its behaviour says", on(func(p *player, pod, c string) error { return p.feels(pod, c, false) })},
		{"replace", "POD/CONTAINER", "somebody else restarts it behind the agent's back", on((*player).replace)},
		{"retune", "POD/CONTAINER [cpu=MILLICORES] [memory=MIB] [burst=N]", "somebody else changes its resources behind the agent's back", func(a *args) action {
			pod, container := a.container()
			var to v1.Container
			burst := a.number("burst", 1)
			for _, n := range needs[:2] {
				if amount := a.number(n.word, 0); amount > 0 {
					n.of(&to, amount, burst)
				}
			}
			return func(p *player) error { return p.node.World.Retune(p.uid(pod), container, to.Resources) }
		}},
		{"lose-track", "POD/CONTAINER", "the runtime does not know any more whether it runs", on(func(p *player, pod, c string) error { return p.node.World.LoseTrack(p.uid(pod), c) })},
		{"lose-records", "POD/CONTAINER", "somebody removes all its instances behind the agent's back", on(func(p *player, pod, c string) error { return p.node.World.LoseRecords(p.uid(pod), c) })},
		{"lose-address", "POD", "its sandbox has no address any more", func(a *args) action {
			name := a.next("POD")
			return func(p *player) error { return p.node.World.SandboxLosesIP(p.uid(name)) }
		}},
	}
}

func agentVerbs() []verb {
	return []verb{
		{"agent", "start|stop|restart|suspend|resume", "what happens to the agent", func(a *args) action {
			what := a.choice("what", "start", "stop", "restart", "suspend", "resume")
			return func(p *player) error { return p.agent(what) }
		}},
		{"crash", "[seed=N]", "the agent dies as by kill -9; seed decides which calls under way take effect", func(a *args) action {
			seed := uint64(a.number("seed", 1))
			return func(p *player) error {
				p.crash(seed)
				return nil
			}
		}},
		{"crash-at", "OP [pod=NAME] [container=C] [nth=N] [done]", "the agent dies at such a call, before it takes effect or right after", func(a *args) action {
			on, nth, effect := a.target(), a.number("nth", 1), Undone
			if a.flag("done") {
				effect = Done
			}
			on.Op = fake.Op(a.next("OP"))
			return func(p *player) error {
				p.sprung = p.node.CrashAgentOn(on, nth, effect)
				return nil
			}
		}},
		{"reboot", "", "the machine goes down, with the agent, and comes up, with another", func(*args) action { return (*player).reboot }},
	}
}

// target takes the options that select calls.
func (a *args) target() (on fake.Target) {
	on.Pod, _ = a.option("pod")
	on.Container, _ = a.option("container")
	return on
}

func readSleep(a *args) action {
	d := a.toDuration(a.next("DURATION"))
	return func(p *player) error {
		p.sleep(d)
		return nil
	}
}

// poll is the interval between two checks of "within".
const poll = 100 * time.Millisecond

func readWithin(a *args) action {
	d := a.toDuration(a.next("DURATION"))
	a.choice("expect", "expect")
	holds := a.expectation()
	return func(p *player) error {
		for deadline := time.Now().Add(d); ; {
			err := holds(p)
			if err == nil || !time.Now().Before(deadline) {
				return err
			}
			p.sleep(min(poll, time.Until(deadline)))
		}
	}
}

func readCalm(a *args) action {
	d := 15 * time.Minute
	if len(a.words) > 0 {
		d = a.toDuration(a.next("DURATION"))
	}
	return func(p *player) error { return p.calm(d) }
}

var errFirst = errors.New("node has to be the first command")
