// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/runtime"
)

// dice makes small random pods and observations, including collisions and states that a correct
// node never has.
type dice struct{ *rand.Rand }

func (d dice) oneIn(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

var (
	mainNames  = []string{"a", "b", "c"}
	initNames  = []string{"i", "j", "k"}
	debugNames = []string{"d"}
	sandboxIDs = []runtime.SandboxID{"s3", "s2", "s1"} // newest first
)

func (d dice) pod() *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "uid"}}
	pod.Spec.RestartPolicy = pick(d, v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever)
	pod.Spec.HostNetwork = d.oneIn(8)
	if d.oneIn(20) {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	for _, name := range mainNames[:1+d.IntN(3)] {
		pod.Spec.Containers = append(pod.Spec.Containers, d.container(name))
	}
	for _, name := range initNames[:d.IntN(4)] {
		c := d.container(name)
		if d.oneIn(2) {
			c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for _, name := range debugNames[:d.IntN(2)] {
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, v1.EphemeralContainer{
			EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: name},
		})
	}
	return pod
}

func (d dice) container(name string) v1.Container {
	c := v1.Container{Name: name, Image: "image"}
	if d.oneIn(4) {
		c.RestartPolicy = new(pick(d, v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever))
		if d.oneIn(2) {
			c.RestartPolicyRules = []v1.ContainerRestartRule{{
				Action: pick(d, v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers),
				ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
					Operator: pick(d, v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn),
					Values:   []int32{pick[int32](d, 0, 1, 137)},
				},
			}}
		}
	}
	if d.oneIn(4) {
		c.LivenessProbe = &v1.Probe{}
	}
	if d.oneIn(4) {
		c.StartupProbe = &v1.Probe{}
	}
	return c
}

// finished returns containers that are known to have ended for good if they have no record of a
// run.
func (d dice) finished() string { return pick(d, "", "", "", "a", "ab", "abc") }

// status observes pod. Usually a container is in the newest sandbox, as on a node without a reboot.
func (d dice) status(pod *v1.Pod) *runtime.PodStatus {
	if d.oneIn(30) {
		return nil
	}
	st := &runtime.PodStatus{UID: pod.UID}
	for i, id := range sandboxIDs[d.IntN(4):] {
		sb := runtime.SandboxStatus{ID: id, Attempt: uint32(3 - i), HostNetwork: pod.Spec.HostNetwork, NetworkKnown: true}
		sb.Ready = i == 0 && !d.oneIn(5) || d.oneIn(15)
		if sb.IPs = []string{"10.0.0.1"}; d.oneIn(15) {
			sb.IPs = nil
		}
		if d.oneIn(15) {
			sb.HostNetwork = !sb.HostNetwork
		}
		st.Sandboxes = append(st.Sandboxes, sb)
	}
	for i := range pod.Spec.Containers {
		d.instances(st, &pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		d.instances(st, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.EphemeralContainers {
		d.instances(st, (*v1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	d.Shuffle(len(st.Containers), func(i, j int) {
		st.Containers[i], st.Containers[j] = st.Containers[j], st.Containers[i]
	})
	return st
}

func (d dice) instances(st *runtime.PodStatus, c *v1.Container) {
	for range pick(d, 0, 0, 1, 1, 1, 2, 3) {
		in := runtime.ContainerStatus{
			ID:   runtime.ContainerID{Runtime: "old", ID: strconv.Itoa(len(st.Containers))},
			Name: c.Name, Hash: containermeta.Hash(c), RestartCount: int32(d.IntN(3)),
			State: pick(d, runtime.StateRunning, runtime.StateRunning, runtime.StateExited, runtime.StateExited,
				runtime.StateExited, runtime.StateCreated, runtime.StateUnknown),
		}
		if !d.oneIn(4) { // else as in a listing without details
			in.CreatedAt = time.Unix(1, 0)
		}
		if in.State == runtime.StateExited {
			in.ExitCode = pick[int32](d, 0, 0, 1, 137)
			in.Reason = pick(d, runtime.ReasonCompleted, runtime.ReasonError, runtime.ReasonOOMKilled)
		}
		if d.oneIn(8) {
			in.Hash = "old"
		}
		switch n := len(st.Sandboxes); {
		case n > 0 && d.oneIn(4):
			in.Sandbox = st.Sandboxes[d.IntN(n)].ID
		case n > 0:
			in.Sandbox = st.Sandboxes[0].ID
		}
		st.Containers = append(st.Containers, in)
	}
}

// verdictsByID has the probe results of a random pod: random for the first instances, success for
// instances started by a plan.
type verdictsByID struct{ old [16]verdicts }

func (d dice) verdicts() *verdictsByID {
	var v verdictsByID
	for i := range v.old {
		v.old[i].liveness = pick(d, noVerdict, success, success, failure)
		v.old[i].startup = pick(d, noVerdict, success, success, failure)
	}
	return &v
}

func (v *verdictsByID) of(id string) verdicts {
	old, isOld := strings.CutPrefix(id, "old://")
	if n, err := strconv.Atoi(old); err == nil && isOld {
		return v.old[n%len(v.old)]
	}
	return verdicts{success, success}
}

func (v *verdictsByID) Alive(id string) (ok, known bool)   { return v.of(id).liveness.answer() }
func (v *verdictsByID) Started(id string) (ok, known bool) { return v.of(id).startup.answer() }

// describePod and describe print nearly the input of podOf and observe.
func describePod(pod *v1.Pod) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pod: %s, hostNetwork %t, deleted %t", pod.Spec.RestartPolicy, pod.Spec.HostNetwork, pod.DeletionTimestamp != nil)
	for group, list := range map[string][]v1.Container{"init": pod.Spec.InitContainers, "main": pod.Spec.Containers} {
		for _, c := range list {
			fmt.Fprintf(&b, "\n\t%s %s", group, c.Name)
			if c.RestartPolicy != nil {
				fmt.Fprintf(&b, " policy=%s", *c.RestartPolicy)
			}
			for _, r := range c.RestartPolicyRules {
				fmt.Fprintf(&b, " rule=%s/%s/%v", r.Action, r.ExitCodes.Operator, r.ExitCodes.Values)
			}
			fmt.Fprintf(&b, " liveness=%t startup=%t wants %s %v", c.LivenessProbe != nil, c.StartupProbe != nil,
				showGiven(given{resources: naiveWants(pod, &c)}), c.ResizePolicy)
		}
	}
	return b.String()
}

func describe(st *runtime.PodStatus, probes *verdictsByID) string {
	if st == nil {
		return "nothing"
	}
	var b strings.Builder
	for _, s := range st.Sandboxes {
		fmt.Fprintf(&b, "\n\tsandbox %s attempt=%d ready=%t host=%t ips=%v", s.ID, s.Attempt, s.Ready, s.HostNetwork, s.IPs)
	}
	for _, c := range st.Containers {
		fmt.Fprintf(&b, "\n\t%s %s %d %s @%s hash=%s %s %+v", c.Name, c.State, c.ExitCode, c.Reason, c.Sandbox, c.Hash, c.ID, probes.of(c.ID.String()))
	}
	return b.String()
}
