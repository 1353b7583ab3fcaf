// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// expectations are the forms of "expect".
const expectations = "phase NAME PHASE | api NAME PHASE|gone | ready NAME true|false | restarts POD/C N | starts POD/C N | running POD/C | stopped POD/C | " +
	"waiting POD/C REASON | gone NAME | event NAME REASON | journal TEXT"

// expectation takes all words after "expect".
func (a *args) expectation() action {
	switch what := a.next("what"); what {
	case "phase", "api", "ready":
		return a.expectOfPod(what)
	case "restarts", "starts", "running", "stopped", "waiting":
		return a.expectOfContainer(what)
	case "gone":
		name := a.next("NAME")
		return func(p *player) error { return p.gone(name) }
	case "event":
		name, reason := a.next("NAME"), a.next("REASON")
		return func(p *player) error {
			for _, e := range p.node.History().Events {
				if e.Pod == name && e.Reason == reason {
					return nil
				}
			}
			return fmt.Errorf("no event %s of %s", reason, name)
		}
	case "journal":
		text := a.next("TEXT")
		return func(p *player) error {
			if !strings.Contains(p.journal(), text) {
				return fmt.Errorf("the journal does not say %q", text)
			}
			return nil
		}
	default:
		a.fail("%q is nothing to expect", what)
		return nil
	}
}

func differs(what string, want, got any) error {
	if want == got {
		return nil
	}
	return fmt.Errorf("%s is %v, not %v", what, got, want)
}

func (a *args) expectOfPod(what string) action {
	name, want := a.next("NAME"), a.next("value")
	return func(p *player) error {
		if what == "api" {
			if pod := p.server.Get(p.uid(name)); pod != nil {
				return differs("phase on the API server", want, string(pod.Status.Phase))
			}
			return differs("the pod on the API server", want, "gone")
		}
		status, err := p.status(name)
		switch {
		case err != nil:
			return err
		case what == "phase":
			return differs("phase", want, string(status.Phase))
		}
		for _, c := range status.Conditions {
			if c.Type == v1.PodReady {
				return differs("ready", want, strings.ToLower(string(c.Status)))
			}
		}
		return differs("ready", want, "unknown")
	}
}

func (a *args) expectOfContainer(what string) action {
	pod, container := a.container()
	number, reason := 0, ""
	switch what {
	case "restarts", "starts":
		number = a.toNumber(a.next("N"))
	case "waiting":
		reason = a.next("REASON")
	}
	return func(p *player) error {
		switch what {
		case "starts":
			return differs("number of starts", number, p.starts(pod, container))
		case "running":
			return differs("number of running instances", 1, p.running(pod, container))
		case "stopped":
			return differs("number of running instances", 0, p.running(pod, container))
		}
		status, err := p.status(pod)
		if err != nil {
			return err
		}
		c := containerStatus(&status, container)
		switch {
		case c == nil:
			return fmt.Errorf("no status of container %q", container)
		case what == "restarts":
			return differs("restart count", number, int(c.RestartCount))
		case c.State.Waiting == nil:
			return differs("reason to wait", reason, "none: it does not wait")
		}
		return differs("reason to wait", reason, c.State.Waiting.Reason)
	}
}

// containerStatus returns a container's status, or nil.
func containerStatus(s *v1.PodStatus, name string) *v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

func (p *player) status(name string) (v1.PodStatus, error) {
	uid := p.uid(name)
	for _, pod := range p.node.assembly.Pods() {
		if pod.UID == uid {
			return pod.Status, nil
		}
	}
	return v1.PodStatus{}, fmt.Errorf("the agent knows no pod %q", name)
}

// starts counts the instances that have run.
func (p *player) starts(pod, container string) int {
	n := 0
	for _, e := range p.node.World.Journal() {
		if e.Op == fake.OpStartContainer && e.Done && e.UID == p.uid(pod) && e.Container == container {
			n++
		}
	}
	return n
}

func (p *player) running(pod, container string) int {
	n, uid := 0, p.uid(pod)
	for _, status := range p.node.World.Truth() {
		for i := range status.Containers {
			c := &status.Containers[i]
			if status.UID == uid && c.Name == container && (c.State == runtime.StateRunning || c.State == runtime.StateUnknown) {
				n++
			}
		}
	}
	return n
}

// gone fails while the runtime, the agent or the API server knows the pod.
func (p *player) gone(name string) error {
	uid := p.uid(name)
	for _, status := range p.node.World.Truth() {
		if status.UID == uid {
			return fmt.Errorf("the runtime has %d sandboxes and %d containers of it", len(status.Sandboxes), len(status.Containers))
		}
	}
	if status, err := p.status(name); err == nil {
		return fmt.Errorf("the agent knows it, and that it is %s", status.Phase)
	}
	if p.server.Get(uid) != nil {
		return fmt.Errorf("the API server has it")
	}
	return nil
}
