// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// ShouldRestart reports whether container c of pod is to be started, given its newest instance.
// status is nil without an instance. The result is false for a running instance and in a pod that
// is being deleted, and true for an instance that was never started. RestartsAfterExit decides
// about an exited instance. A container in an unknown state is restarted unless its policy is
// Never: such a container may have ended, and has to be stopped to learn its exit.
//
// The rules are those of the kubelet 1.36 (KEP-5307), except that the kubelet restarts a container
// in an unknown state under every policy. ShouldRestart does not apply to sidecars, which are
// always restarted, and to ephemeral containers, which are never restarted.
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

// RestartsAfterExit reports whether the policies and rules of pod and its container c require a
// restart after an exit with this code and reason. The deletion of the pod is not considered.
//
//   - For a container with its own policy: the container restarts if a rule matches the code. If no
//     rule matches, its policy decides.
//   - For other containers: the pod's policy decides. An unset or unknown policy counts as Always.
//
// An init container that was hit by the kernel's OOM killer has failed, even if its main process
// returned 0. The deciding code is then 137.
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

// RestartAllTriggered reports whether all containers of pod are to be restarted in place
// (KEP-5532): the record of an exited init or regular container exists, and the matching rule of
// that container is RestartAllContainers. In a pod that is being deleted the result is false.
//
// Only instances in the current sandbox count. A lost sandbox takes all its containers along, so no
// restart is needed. The exits caused by stopping a finished pod must not start the pod again.
//
// Plan then resets all containers. Plan removes the triggering instances last, so that the answer
// stays the same until all containers are reset, also after a crash in between.
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

// HasRestartAllRule reports whether c has a rule that restarts the whole pod.
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

// matchingRule returns the first rule of c that matches an exit with code, or nil. Rules of a
// container without its own policy are invalid and never match. Rules with an unknown action or
// operator never match.
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

// policyOf returns the policy that applies to c: its own policy, else the pod's policy.
func policyOf(pod *v1.Pod, c *v1.Container) v1.RestartPolicy {
	if c.RestartPolicy != nil {
		return v1.RestartPolicy(*c.RestartPolicy)
	}
	return pod.Spec.RestartPolicy
}

// restartsAfterKill decides without an exit code.
func restartsAfterKill(pod *v1.Pod, c *v1.Container) bool {
	return policyOf(pod, c) != v1.RestartPolicyNever
}

// exitCodeKilled is the exit code of an instance that was killed by SIGKILL.
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
