// SPDX-License-Identifier: Apache-2.0

// Package restartrule decides about restarts of exited containers by the restart policies and rules
// of pods and containers. Package runtime plans by these rules, runtime/podstatus shows them, and
// statusmanager tells by them which containers may run again.
//
// The rules are those of the kubelet 1.36 (KEP-5307, KEP-5532).
package restartrule

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// OOMKilled is the reason of an exit caused by the kernel's OOM killer.
const OOMKilled = "OOMKilled"

// AfterExit reports whether the policies and rules of a pod and its container c require a
// restart after an exit with this code and reason. The deletion of the pod is not considered.
//
//   - For a container with its own policy: the container restarts if a rule matches the code. If no
//     rule matches, its policy decides.
//   - For other containers: the pod's policy decides. An unset or unknown policy counts as Always.
//
// After an OOM kill an init container has failed, even if the main process returned 0. The deciding
// code is then 137.
func AfterExit(spec *v1.PodSpec, c *v1.Container, exitCode int32, reason string) bool {
	exitCode = decidingCode(spec, c, exitCode, reason)
	if matchingRule(c, exitCode) != nil {
		return true
	}
	switch policyOf(spec, c) {
	case v1.RestartPolicyNever:
		return false
	case v1.RestartPolicyOnFailure:
		return exitCode != 0
	default:
		return true
	}
}

// AfterKill reports whether a container without a known exit code is to be restarted.
func AfterKill(spec *v1.PodSpec, c *v1.Container) bool {
	return policyOf(spec, c) != v1.RestartPolicyNever
}

// CanRestartAll reports whether a rule of c restarts the whole pod.
func CanRestartAll(c *v1.Container) bool {
	return c.RestartPolicy != nil && slices.ContainsFunc(c.RestartPolicyRules, func(r v1.ContainerRestartRule) bool {
		return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
	})
}

// MayRestartAll reports whether a rule of any container restarts the whole pod.
func MayRestartAll(spec *v1.PodSpec) bool {
	for c := range podfacts.Containers(spec) {
		if CanRestartAll(c) {
			return true
		}
	}
	return false
}

// RestartsAll reports whether the matching rule for an exit of c restarts the whole pod.
func RestartsAll(spec *v1.PodSpec, c *v1.Container, exitCode int32, reason string) bool {
	rule := matchingRule(c, decidingCode(spec, c, exitCode, reason))
	return rule != nil && rule.Action == v1.ContainerRestartRuleActionRestartAllContainers
}

// matchingRule returns the first matching rule of c for an exit with code, or nil. Rules of a
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

// policyOf returns the policy of c, or else the policy of the pod.
func policyOf(spec *v1.PodSpec, c *v1.Container) v1.RestartPolicy {
	if c.RestartPolicy != nil {
		return v1.RestartPolicy(*c.RestartPolicy)
	}
	return spec.RestartPolicy
}

// ExitCodeKilled is the exit code after a SIGKILL.
const ExitCodeKilled = 137

func decidingCode(spec *v1.PodSpec, c *v1.Container, code int32, reason string) int32 {
	if code == 0 && reason == OOMKilled && isInit(spec, c.Name) {
		return ExitCodeKilled
	}
	return code
}

func isInit(spec *v1.PodSpec, name string) bool {
	return slices.ContainsFunc(spec.InitContainers, func(c v1.Container) bool { return c.Name == name })
}
