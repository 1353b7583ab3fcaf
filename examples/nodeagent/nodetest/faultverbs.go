// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"slices"

	"github.com/keelson-dev/keelson/runtime/fake"
)

var (
	errInjected = errors.New("injected")
	errAway     = errors.New("connection refused")
)

func faultVerbs() []verb {
	return []verb{
		{
			"fault", "LABEL [op=OP] [pod=NAME] [container=C] [nth=N] [times=N] [for=DURATION] err|hang|lost|latency=DURATION|lie=omit|lie=stale",
			"such calls to the runtime fail, hang, are done but not answered, take longer, or lie (List and PodStatus), until clear", readFault,
		},
		{"clear", "[LABEL]", "take faults away", func(a *args) action {
			label := ""
			if len(a.words) > 0 {
				label = a.next("LABEL")
			}
			return func(p *player) error {
				p.clear(label)
				return nil
			}
		}},
		{"runtime", "down|hang|up", "every call to the runtime fails or hangs, or not; containers run on", func(a *args) action {
			what := a.choice("how", "down", "hang", "up")
			return func(p *player) error { return p.runtime(what) }
		}},
		{"break-watch", "", "the stream of hints from the runtime breaks", func(*args) action {
			return func(p *player) error {
				p.node.World.BreakWatch(nil)
				return nil
			}
		}},
		{"api", "down|hang|lossy|busy|overloaded|conflict|forbidden|invalid|broken|up [only=get|patch|delete]", "every request to the API server, or every request of a kind, fails, hangs, is done but not answered, or is refused with 429, 429 for an hour, 409, 403, 422 or 500, or not; the watch is silent while it is down or hangs", readAPI},
		{"source", "silent|garbled|empty|fine", "how the source of static pods is", func(a *args) action {
			moods := map[string]Mood{"silent": Silent, "garbled": Garbled, "empty": Empty, "fine": Talkative}
			mood := moods[a.choice("how", "silent", "garbled", "empty", "fine")]
			return func(p *player) error {
				p.node.static.feel(mood)
				return nil
			}
		}},
		{"registry", "down|hang|up", "pulls of images fail or hang, or not", func(a *args) action {
			how := a.choice("how", "down", "hang", "up")
			return func(p *player) error {
				if p.depot == nil {
					return errors.New("the node has no images")
				}
				p.depot.registry(how)
				p.node.history.outage("registry", how != "up")
				return nil
			}
		}},
		{"volumes", "fail|fail-set-up|work", "whether volumes can be set up and torn down", func(a *args) action {
			how := a.choice("how", "fail", "fail-set-up", "work")
			return func(p *player) error {
				p.volumes(how)
				return nil
			}
		}},
		{"key", "KEY [VALUE]", "a key of ConfigMap config, from which pods have variables, has a value, or is removed", readKey},
	}
}

func (p *player) volumes(how string) {
	var err error
	if how != "work" {
		err = errInjected
	}
	p.node.disk.failOn(err, how == "fail-set-up")
	p.node.history.outage("volumes", err != nil)
}

func readFault(a *args) action {
	f := fake.Fault{On: a.target(), Nth: a.number("nth", 0), Times: a.number("times", 0), For: a.duration("for"), Latency: a.duration("latency")}
	if op, ok := a.option("op"); ok {
		f.On.Op = fake.Op(op)
	}
	if a.flag("err") {
		f.Err = errInjected
	}
	f.HangUntilCtx = a.flag("hang")
	f.DoneButReplyLost = a.flag("lost")
	if lie, ok := a.option("lie"); ok {
		if f.Lie = map[string]fake.Lie{"omit": fake.Omit, "stale": fake.Stale}[lie]; f.Lie == 0 {
			a.fail("%q is none of omit, stale", lie)
		}
	}
	label := a.next("LABEL")
	if world, err := fake.NewWorld(fake.WorldOptions{}); err != nil {
		a.fail("%w", err)
	} else if _, err := world.Inject(f); err != nil {
		a.fail("%w", err)
	}
	return func(p *player) error { return p.inject(label, f) }
}

func (p *player) inject(label string, f fake.Fault) error {
	in, err := p.node.World.Inject(f)
	if err == nil {
		p.faults = append(p.faults, labelled{label, in.Clear})
	}
	return err
}

// replace restarts a container without the agent, unless the agent is stopping the container: the
// agent then starts the container next, and cannot know of a start between its own calls.
func (p *player) replace(pod, container string) error {
	uid := p.uid(pod)
	if slices.ContainsFunc(p.node.World.Journal(), func(e fake.Entry) bool {
		return e.Op == fake.OpStopContainer && e.UnderWay && e.UID == uid && e.Container == container
	}) {
		return errors.New("the agent is stopping it")
	}
	_, err := p.node.World.Replace(uid, container)
	return err
}

type labelled struct {
	label string
	clear func()
}

// clear removes faults by label. "" removes all faults.
func (p *player) clear(label string) {
	var kept []labelled
	for _, f := range p.faults {
		if label == "" || f.label == label {
			f.clear()
		} else {
			kept = append(kept, f)
		}
	}
	p.faults = kept
}

// The labels of faults injected by "runtime" and "api". The blank keeps them different from every
// word.
const (
	labelRuntime = " runtime"
	labelAPI     = " api"
)

// The outages of the API server: requests fail, and the watch shows no changes.
const (
	outageAPI   = "api"
	outageWatch = "watch"
)

func (p *player) runtime(what string) error {
	p.clear(labelRuntime)
	switch what {
	case "down":
		defer p.node.World.BreakWatch(errAway)
		return p.inject(labelRuntime, fake.Fault{Err: errAway})
	case "hang":
		return p.inject(labelRuntime, fake.Fault{HangUntilCtx: true})
	}
	return nil
}
