// SPDX-License-Identifier: Apache-2.0

package runtime

import v1 "k8s.io/api/core/v1"

// restartAll plans the restart of all containers in place. Every instance of every init and regular container
// is killed if need be and removed; nothing is started until that is done, so
// the next plan finds a pod that never ran, in a sandbox that stays.
//
// What triggered it goes last: if the agent dies in between it is triggered
// again. If the sandbox has to be replaced, that is all: it takes all containers along.
func (p *planner) restartAll(s SandboxCheck) {
	if s.Changed {
		p.out.KillPod, p.out.CreateSandbox, p.out.Cause = true, true, s.Message
		return
	}
	for _, triggers := range []trigger{isVictim, isTrigger} {
		p.reset(p.pod.Spec.Containers, triggers)
		p.reset(p.pod.Spec.InitContainers, triggers)
	}
}

// trigger tells the instances that caused the restart from the others.
type trigger uint8

const (
	isVictim trigger = iota
	isTrigger
)

// reset removes the instances of the listed containers that are of one kind,
// the oldest of each container first: the newest knows the restart count.
func (p *planner) reset(list []v1.Container, kind trigger) {
	for i := range list {
		c := &list[i]
		for j := len(p.status.Containers) - 1; j >= 0; j-- {
			st := &p.status.Containers[j]
			if st.Name != c.Name || triggersRestartAll(p.pod, c, st) != (kind == isTrigger) {
				continue
			}
			p.kill(st, killRestartAll, "all containers of the pod are restarted")
			p.out.Kill[len(p.out.Kill)-1].Remove = true
		}
	}
}
