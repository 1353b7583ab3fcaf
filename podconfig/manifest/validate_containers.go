// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

const (
	maxRestartRules     = 20
	maxRestartExitCodes = 255
)

func sortedKeys[K ~string, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}

func validateContainers(r *report, spec *v1.PodSpec, volumes map[string]*v1.Volume, p *field.Path) {
	if len(spec.Containers) == 0 {
		r.required(p.Child("containers"), "a pod needs at least one container")
	}
	names, hostPorts := map[string]bool{}, map[string]bool{}
	for i := range spec.InitContainers {
		at := p.Child("initContainers").Index(i)
		validateContainer(r, spec, &spec.InitContainers[i], volumes, at)
		validateInitOnly(r, &spec.InitContainers[i], at)
		r.unique(at.Child("name"), names, spec.InitContainers[i].Name)
		if podfacts.IsSidecar(&spec.InitContainers[i]) {
			validateHostPorts(r, &spec.InitContainers[i], hostPorts, at.Child("ports"))
		}
	}
	for i := range spec.Containers {
		at := p.Child("containers").Index(i)
		validateContainer(r, spec, &spec.Containers[i], volumes, at)
		r.unique(at.Child("name"), names, spec.Containers[i].Name)
		validateHostPorts(r, &spec.Containers[i], hostPorts, at.Child("ports"))
	}
}

func validateContainer(r *report, spec *v1.PodSpec, c *v1.Container, volumes map[string]*v1.Volume, p *field.Path) {
	if c.Name == "" {
		r.required(p.Child("name"), "every container needs a name")
	} else {
		r.faults(p.Child("name"), c.Name, validation.IsDNS1123Label(c.Name))
	}
	validateImage(r, c, p)
	for i, word := range c.Command {
		r.noZero(p.Child("command").Index(i), word)
	}
	for i, word := range c.Args {
		r.noZero(p.Child("args").Index(i), word)
	}
	r.noBackstep(p.Child("workingDir"), c.WorkingDir)
	r.noBackstep(p.Child("terminationMessagePath"), c.TerminationMessagePath)
	oneOf(r, p.Child("terminationMessagePolicy"), c.TerminationMessagePolicy,
		v1.TerminationMessageReadFile, v1.TerminationMessageFallbackToLogsOnError)
	validatePorts(r, spec, c.Ports, p.Child("ports"))
	validateEnvFrom(r, c.EnvFrom, p.Child("envFrom"))
	validateEnv(r, c.Env, volumes, p.Child("env"))
	validateMounts(r, c, volumes, p)
	validateRestart(r, c, p)
	validateProbes(r, c, p)
	validateLifecycle(r, spec, c, p.Child("lifecycle"))
	validateResources(r, &c.Resources, spec.ResourceClaims, p.Child("resources"))
	validateSecurity(r, c.SecurityContext, p.Child("securityContext"))
}

func validateImage(r *report, c *v1.Container, p *field.Path) {
	switch {
	case c.Image == "":
		r.required(p.Child("image"), "every container needs an image")
	case strings.TrimSpace(c.Image) != c.Image:
		r.invalid(p.Child("image"), c.Image, "must not have leading or trailing whitespace")
	default:
		r.noBackstep(p.Child("image"), c.Image)
	}
	oneOf(r, p.Child("imagePullPolicy"), c.ImagePullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)
}

func validatePorts(r *report, spec *v1.PodSpec, ports []v1.ContainerPort, p *field.Path) {
	names := map[string]bool{}
	for i, port := range ports {
		at := p.Index(i)
		if port.Name != "" {
			r.faults(at.Child("name"), port.Name, validation.IsValidPortName(port.Name))
			r.unique(at.Child("name"), names, port.Name)
		}
		if port.ContainerPort == 0 {
			r.required(at.Child("containerPort"), "a number from 1 to 65535")
		} else {
			validatePortNumber(r, at.Child("containerPort"), port.ContainerPort)
		}
		if port.HostPort != 0 {
			validatePortNumber(r, at.Child("hostPort"), port.HostPort)
		}
		if spec.HostNetwork && port.HostPort != port.ContainerPort {
			r.number(at.Child("hostPort"), int64(port.HostPort), "must match containerPort when hostNetwork is true")
		}
		if port.HostIP != "" {
			validateIP(r, at.Child("hostIP"), port.HostIP)
		}
		oneOf(r, at.Child("protocol"), port.Protocol, v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP)
	}
}

func validatePortNumber(r *report, p *field.Path, port int32) {
	for _, complaint := range validation.IsValidPortNum(int(port)) {
		r.number(p, int64(port), complaint)
	}
}

func validateHostPorts(r *report, c *v1.Container, taken map[string]bool, p *field.Path) {
	for i, port := range c.Ports {
		if port.HostPort != 0 {
			r.unique(p.Index(i).Child("hostPort"), taken, fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort))
		}
	}
}

// validateInitOnly reports fields not allowed in an init container, because it ends before the pod
// is running.
func validateInitOnly(r *report, c *v1.Container, p *field.Path) {
	if podfacts.IsSidecar(c) {
		return
	}
	const detail = "may not be set for init containers without restartPolicy=Always"
	set := map[string]bool{"lifecycle": c.Lifecycle != nil, "livenessProbe": c.LivenessProbe != nil,
		"readinessProbe": c.ReadinessProbe != nil, "startupProbe": c.StartupProbe != nil}
	for _, name := range sortedKeys(set) {
		if set[name] {
			r.forbidden(p.Child(name), detail)
		}
	}
}

// validateRestart follows KEP-5307 as of 1.36: a container may have its own policy, and may have
// rules only with a policy.
func validateRestart(r *report, c *v1.Container, p *field.Path) {
	optionalOneOf(r, p.Child("restartPolicy"), c.RestartPolicy, v1.ContainerRestartPolicyAlways,
		v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever)
	rules := p.Child("restartPolicyRules")
	if len(c.RestartPolicyRules) > 0 && c.RestartPolicy == nil {
		r.required(p.Child("restartPolicy"), "must be set when restartPolicyRules are")
	}
	if n := len(c.RestartPolicyRules); n > maxRestartRules {
		r.errs = append(r.errs, field.TooMany(rules, n, maxRestartRules))
	}
	for i, rule := range c.RestartPolicyRules {
		at := rules.Index(i)
		oneOf(r, at.Child("action"), rule.Action,
			v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers)
		if rule.ExitCodes == nil {
			r.required(at.Child("exitCodes"), "must be specified")
			continue
		}
		oneOf(r, at.Child("exitCodes", "operator"), rule.ExitCodes.Operator,
			v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn)
		if n := len(rule.ExitCodes.Values); n > maxRestartExitCodes {
			r.errs = append(r.errs, field.TooMany(at.Child("exitCodes", "values"), n, maxRestartExitCodes))
		}
		seen := map[int32]bool{}
		for j, code := range rule.ExitCodes.Values {
			if seen[code] {
				r.errs = append(r.errs, field.Duplicate(at.Child("exitCodes", "values").Index(j), code))
			}
			seen[code] = true
		}
	}
}
