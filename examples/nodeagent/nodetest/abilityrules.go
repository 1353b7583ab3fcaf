// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Restart policies of containers, and rules by exit codes.

func ruling() ability {
	return ability{fields: func(g *generator, before string) (s string) {
		switch own := pick(g, "Always", "OnFailure", "Never"); {
		case !g.chance(12):
		case strings.Contains(before, " init=i") && own != "Always" && g.chance(40):
			s += " own=i:" + own
		case strings.Contains(before, " main=c,d") && g.chance(40):
			s += " own=d:" + own
		default:
			s += " own=c:" + own
		}
		switch {
		case g.chance(10):
			s += " rule=c:" + pick(g, "1", "137", "1,3", "0:not", "0,1:not", "3,137")
		case g.chance(15) && !g.limited:
			s += " rule=c:" + pick(g, "1", "3", "1,3", "0,137:not") + ":all"
			if g.chance(30) {
				s += " rule=c:3"
			}
		}
		return s
	}}
}

// rules takes restart policies and rules of containers. The default policy of a container with
// rules is Never. A rule matches some exit codes or all others, and restarts the container or all
// containers of the pod.
func (a *args) rules(pod *v1.Pod) {
	for slices.ContainsFunc(a.words, func(w string) bool { return strings.HasPrefix(w, "rule=") }) {
		a.of(pod, "rule", func(c *v1.Container, rest string) {
			codes, all := strings.CutSuffix(rest, ":all")
			codes, not := strings.CutSuffix(codes, ":not")
			rule := v1.ContainerRestartRule{Action: v1.ContainerRestartRuleActionRestart, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn}}
			if all {
				rule.Action = v1.ContainerRestartRuleActionRestartAllContainers
			}
			if not {
				rule.ExitCodes.Operator = v1.ContainerRestartRuleOnExitCodesOpNotIn
			}
			for code := range strings.SplitSeq(codes, ",") {
				rule.ExitCodes.Values = append(rule.ExitCodes.Values, int32(a.toNumber(code)))
			}
			c.RestartPolicy, c.RestartPolicyRules = new(v1.ContainerRestartPolicyNever), append(c.RestartPolicyRules, rule)
		})
	}
	a.of(pod, "own", func(c *v1.Container, policy string) { c.RestartPolicy = new(v1.ContainerRestartPolicy(policy)) })
}

// policyOf returns the restart policy that applies to a container.
func policyOf(pod *v1.Pod, c *v1.Container) v1.RestartPolicy {
	if c.RestartPolicy != nil {
		return v1.RestartPolicy(*c.RestartPolicy)
	}
	return pod.Spec.RestartPolicy
}

// ruleFor returns the first rule of a container for an exit code.
func ruleFor(c *v1.Container, code int32) *v1.ContainerRestartRule {
	for i := range c.RestartPolicyRules {
		rule := &c.RestartPolicyRules[i]
		if slices.Contains(rule.ExitCodes.Values, code) == (rule.ExitCodes.Operator == v1.ContainerRestartRuleOnExitCodesOpIn) {
			return rule
		}
	}
	return nil
}
