// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// ShouldRestart reports whether container c of pod is to be started (again),
// given its newest instance; status nil means that there is none. It is false
// for a running instance and in a pod that is being deleted; it is true for an
// instance that was never started; an exited one is decided by RestartsAfterExit.
// One that was lost sight of is restarted unless its policy is Never: it may have
// run to its end, and has to be stopped to learn how it ended.
//
// It follows the kubelet 1.36 (KEP-5307), which restarts what it has lost sight of
// whatever the policy. It says nothing about sidecars, which
// are restarted whatever their exit, nor about ephemeral containers, which
// never are.
func ShouldRestart(pod *v1.Pod, c *v1.Container, status *ContainerStatus) bool {
	switch {
	case pod.DeletionTimestamp != nil:
		return false
	case status == nil:
		return true
	case status.State == StateRunning:
		return false
	case status.State == StateExited:
		return RestartsAfterExit(pod, c, status.ExitCode, status.Reason)
	case status.State == StateUnknown:
		return restartsAfterKill(pod, c)
	default:
		return true
	}
}

// RestartsAfterExit reports whether the policies and rules of pod and its
// container c call for a restart after an exit with this code and reason. It
// does not look at the pod's deletion.
//
//   - A container with a policy of its own: the first of its rules that matches
//     the code says yes; if none matches its policy decides.
//   - Any other container: the pod's policy decides. A policy that is unset or
//     not known counts as Always.
//
// An init container that the kernel's OOM killer hit has failed even if its
// main process returned 0; it is treated as if it had exited with 137.
func RestartsAfterExit(pod *v1.Pod, c *v1.Container, exitCode int32, reason string) bool {
	exitCode = decidingCode(pod, c, exitCode, reason)
	if matchingRule(c, exitCode) != nil {
		return true
	}
	switch policyOf(pod, c) {
	case v1.RestartPolicyNever:
		return false
	case v1.RestartPolicyOnFailure:
		return exitCode != 0
	default:
		return true
	}
}

// RestartAllTriggered reports whether all containers of pod are to be restarted
// in place (KEP-5532): an exited instance of an init or regular container is
// still on record whose matching rule says RestartAllContainers. In a pod that
// is being deleted it is false.
//
// Only instances in the current sandbox count. A sandbox that was lost takes all
// containers with it, so there is nothing more to restart; and the exits that
// stopping a finished pod brings about do not bring it back.
//
// Plan then resets all containers. It removes the instances that trigger it last, so the
// answer stays the same until everything has been reset, whatever dies in between.
func RestartAllTriggered(pod *v1.Pod, status *PodStatus) bool {
	current := status.Current()
	if current == nil || pod.DeletionTimestamp != nil {
		return false
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if !HasRestartAllRule(&list[i]) {
				continue
			}
			for j := range status.Containers {
				st := &status.Containers[j]
				if st.Name == list[i].Name && st.Sandbox == current.ID && triggersRestartAll(pod, &list[i], st) {
					return true
				}
			}
		}
	}
	return false
}

// HasRestartAllRule reports whether some exit of c restarts the whole pod.
func HasRestartAllRule(c *v1.Container) bool {
	return c.RestartPolicy != nil && slices.ContainsFunc(c.RestartPolicyRules, func(r v1.ContainerRestartRule) bool {
		return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
	})
}

func triggersRestartAll(pod *v1.Pod, c *v1.Container, st *ContainerStatus) bool {
	if st.State != StateExited {
		return false
	}
	rule := matchingRule(c, decidingCode(pod, c, st.ExitCode, st.Reason))
	return rule != nil && rule.Action == v1.ContainerRestartRuleActionRestartAllContainers
}

// matchingRule returns the first rule of c that an exit with code matches, or
// nil. Rules of a container without a policy of its own are not valid and match
// nothing, nor do rules with an action or operator that is not known.
func matchingRule(c *v1.Container, code int32) *v1.ContainerRestartRule {
	if c.RestartPolicy == nil {
		return nil
	}
	for i := range c.RestartPolicyRules {
		r := &c.RestartPolicyRules[i]
		switch r.Action {
		case v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers:
			if matchesCode(r.ExitCodes, code) {
				return r
			}
		}
	}
	return nil
}

func matchesCode(on *v1.ContainerRestartRuleOnExitCodes, code int32) bool {
	if on == nil {
		return false
	}
	switch on.Operator {
	case v1.ContainerRestartRuleOnExitCodesOpIn:
		return slices.Contains(on.Values, code)
	case v1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !slices.Contains(on.Values, code)
	default:
		return false
	}
}

// policyOf returns the policy that c is under: its own, else the pod's.
func policyOf(pod *v1.Pod, c *v1.Container) v1.RestartPolicy {
	if c.RestartPolicy != nil {
		return v1.RestartPolicy(*c.RestartPolicy)
	}
	return pod.Spec.RestartPolicy
}

// restartsAfterKill is the decision where there is no exit code to look at.
func restartsAfterKill(pod *v1.Pod, c *v1.Container) bool {
	return policyOf(pod, c) != v1.RestartPolicyNever
}

// exitCodeKilled is what an instance killed by SIGKILL exits with.
const exitCodeKilled = 137

func decidingCode(pod *v1.Pod, c *v1.Container, code int32, reason string) int32 {
	if code == 0 && reason == ReasonOOMKilled && isInit(pod, c.Name) {
		return exitCodeKilled
	}
	return code
}

func isInit(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool { return c.Name == name })
}
