// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

func isStarted(s *v1.ContainerStatus) bool { return s.Started != nil && *s.Started }

// statusByID returns the status of the regular or init container with the given ID, or nil.
func statusByID(status *v1.PodStatus, id string) *v1.ContainerStatus {
	for s := range podfacts.Statuses(status) {
		if s.ContainerID == id {
			return s
		}
	}
	return nil
}

func containerSpec(list []v1.Container, name string) *v1.Container {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// anyRunning reports whether status shows a running container.
func anyRunning(status *v1.PodStatus) bool {
	runs := func(s v1.ContainerStatus) bool { return s.State.Running != nil }
	return slices.ContainsFunc(status.ContainerStatuses, runs) || slices.ContainsFunc(status.InitContainerStatuses, runs) ||
		slices.ContainsFunc(status.EphemeralContainerStatuses, runs)
}

// restarts reports whether the restart rules of the container and its pod restart a container that
// exited with code.
func restarts(spec *v1.PodSpec, c *v1.Container, code int32) bool {
	if c != nil && c.RestartPolicy != nil {
		for i := range c.RestartPolicyRules {
			if ruleMatches(&c.RestartPolicyRules[i], code) {
				return true
			}
		}
		return policyRestarts(v1.RestartPolicy(*c.RestartPolicy), code)
	}
	return policyRestarts(spec.RestartPolicy, code)
}

func policyRestarts(policy v1.RestartPolicy, code int32) bool {
	switch policy {
	case v1.RestartPolicyNever:
		return false
	case v1.RestartPolicyOnFailure:
		return code != 0
	}
	return true // Always is the default.
}

func ruleMatches(rule *v1.ContainerRestartRule, code int32) bool {
	if rule.ExitCodes == nil {
		return false
	}
	listed := slices.Contains(rule.ExitCodes.Values, code)
	switch rule.ExitCodes.Operator {
	case v1.ContainerRestartRuleOnExitCodesOpIn:
		return listed
	case v1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !listed
	}
	return false
}

// restartsAll reports whether the end of a container may restart all containers.
func restartsAll(spec *v1.PodSpec) bool {
	has := func(c v1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r v1.ContainerRestartRule) bool {
			return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
		})
	}
	return slices.ContainsFunc(spec.Containers, has) || slices.ContainsFunc(spec.InitContainers, has)
}
