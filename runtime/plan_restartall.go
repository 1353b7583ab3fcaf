// SPDX-License-Identifier: Apache-2.0

package runtime

import v1 "k8s.io/api/core/v1"

// restartAll plans the restart of all containers in place. Every instance of every init and regular
// container is killed if necessary, and removed. Nothing is started before. The next plan then
// finds a pod without instances in the same sandbox.
//
// The triggering instances are removed last: after a crash of the agent they trigger the restart
// again. If the sandbox has to be replaced, the plan only replaces the sandbox: its containers end with
// the sandbox.
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

// trigger tells whether an instance has triggered the restart.
type trigger uint8

const (
	isVictim trigger = iota
	isTrigger
)

// reset removes the instances of one kind of the listed containers. The oldest instance of each
// container goes first, because the newest has the restart count.
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
