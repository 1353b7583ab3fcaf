// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
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

// containerObject is object for a container and the objects inside it.
func (c *checker) containerObject(x any, p *field.Path) {
	switch x := x.(type) {
	case *v1.Container:
		c.enter(x)
		c.containerFields(x, p)
		c.restart(x, p)
	case *v1.ContainerPort:
		c.port(x, p)
	case *v1.ContainerRestartRule:
		c.restartRule(x, p)
	case *v1.VolumeMount:
		c.mount(x, p)
	case *v1.VolumeDevice:
		if c.volumes[x.Name] == nil {
			c.noVolume(p.Child("name"), x.Name, c.volumes)
		}
		c.mountPath(p.Child("devicePath"), x.DevicePath, "")
	default:
		c.handlerObject(x, p)
		c.envObject(x, p)
	}
}

// enter makes x the container of the objects that follow.
func (c *checker) enter(x *v1.Container) {
	c.container, c.portNames, c.mountPaths = x, used{}, used{}
	c.isInit = false
	for i := range c.spec.InitContainers {
		c.isInit = c.isInit || x == &c.spec.InitContainers[i] && !podfacts.IsSidecar(x)
	}
}

func (c *checker) containerFields(x *v1.Container, p *field.Path) {
	c.needed(p.Child("name"), x.Name, "every container needs a name", validation.IsDNS1123Label)
	c.unique(p.Child("name"), c.names, x.Name)
	switch {
	case x.Image == "":
		c.required(p.Child("image"), "every container needs an image")
	case strings.TrimSpace(x.Image) != x.Image:
		c.invalid(p.Child("image"), x.Image, "must not have leading or trailing whitespace")
	default:
		c.noBackstep(p.Child("image"), x.Image)
	}
	oneOf(&c.report, p.Child("imagePullPolicy"), x.ImagePullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)
	c.noZeros(p.Child("command"), x.Command)
	c.noZeros(p.Child("args"), x.Args)
	c.noBackstep(p.Child("workingDir"), x.WorkingDir)
	c.noBackstep(p.Child("terminationMessagePath"), x.TerminationMessagePath)
	oneOf(&c.report, p.Child("terminationMessagePolicy"), x.TerminationMessagePolicy,
		v1.TerminationMessageReadFile, v1.TerminationMessageFallbackToLogsOnError)
}

func (c *checker) port(port *v1.ContainerPort, p *field.Path) {
	c.optional(p.Child("name"), port.Name, validation.IsValidPortName)
	c.unique(p.Child("name"), c.portNames, port.Name)
	if port.ContainerPort == 0 {
		c.required(p.Child("containerPort"), "a number from 1 to 65535")
	} else {
		c.portNumber(p.Child("containerPort"), port.ContainerPort)
	}
	if port.HostPort != 0 {
		c.portNumber(p.Child("hostPort"), port.HostPort)
	}
	if port.HostPort != 0 && !c.isInit {
		c.unique(p.Child("hostPort"), c.hostPorts, fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort))
	}
	if c.spec.HostNetwork && port.HostPort != port.ContainerPort {
		c.number(p.Child("hostPort"), int64(port.HostPort), "must match containerPort when hostNetwork is true")
	}
	if port.HostIP != "" {
		c.ip(p.Child("hostIP"), port.HostIP)
	}
	oneOf(&c.report, p.Child("protocol"), port.Protocol, v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP)
}

func (c *checker) portNumber(p *field.Path, port int32) {
	c.numberFaults(p, int64(port), validation.IsValidPortNum(int(port)))
}

// restart follows KEP-5307 as of 1.36: a container may have its own policy, and may have rules only
// with a policy.
func (c *checker) restart(x *v1.Container, p *field.Path) {
	optionalOneOf(&c.report, p.Child("restartPolicy"), x.RestartPolicy, v1.ContainerRestartPolicyAlways,
		v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever)
	if len(x.RestartPolicyRules) > 0 && x.RestartPolicy == nil {
		c.required(p.Child("restartPolicy"), "must be set when restartPolicyRules are")
	}
	if n := len(x.RestartPolicyRules); n > maxRestartRules {
		c.errs = append(c.errs, field.TooMany(p.Child("restartPolicyRules"), n, maxRestartRules))
	}
}

func (c *checker) restartRule(rule *v1.ContainerRestartRule, p *field.Path) {
	oneOf(&c.report, p.Child("action"), rule.Action,
		v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers)
	if rule.ExitCodes == nil {
		c.required(p.Child("exitCodes"), "must be specified")
		return
	}
	oneOf(&c.report, p.Child("exitCodes", "operator"), rule.ExitCodes.Operator,
		v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn)
	values := p.Child("exitCodes", "values")
	if n := len(rule.ExitCodes.Values); n > maxRestartExitCodes {
		c.errs = append(c.errs, field.TooMany(values, n, maxRestartExitCodes))
	}
	seen := map[int32]bool{}
	for i, code := range rule.ExitCodes.Values {
		if seen[code] {
			c.errs = append(c.errs, field.Duplicate(values.Index(i), code))
		}
		seen[code] = true
	}
}

func (c *checker) mount(m *v1.VolumeMount, p *field.Path) {
	if m.Name == "" {
		c.required(p.Child("name"), "the name of one of spec.volumes")
	} else if c.volumes[m.Name] == nil {
		c.noVolume(p.Child("name"), m.Name, c.volumes)
	}
	c.mountPath(p.Child("mountPath"), m.MountPath, "the path in the container, such as \"/data\"")
	c.descending(p.Child("subPath"), m.SubPath)
	c.descending(p.Child("subPathExpr"), m.SubPathExpr)
	if m.SubPath != "" && m.SubPathExpr != "" {
		c.invalid(p.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
	}
	optionalOneOf(&c.report, p.Child("mountPropagation"), m.MountPropagation,
		v1.MountPropagationBidirectional, v1.MountPropagationHostToContainer, v1.MountPropagationNone)
	if m.MountPropagation != nil && *m.MountPropagation == v1.MountPropagationBidirectional && !isPrivileged(c.container.SecurityContext) {
		c.forbidden(p.Child("mountPropagation"), "Bidirectional mount propagation is available only to privileged containers")
	}
	optionalOneOf(&c.report, p.Child("recursiveReadOnly"), m.RecursiveReadOnly, v1.RecursiveReadOnlyDisabled,
		v1.RecursiveReadOnlyIfPossible, v1.RecursiveReadOnlyEnabled)
	if m.RecursiveReadOnly != nil && *m.RecursiveReadOnly != v1.RecursiveReadOnlyDisabled && !m.ReadOnly {
		c.forbidden(p.Child("recursiveReadOnly"), "may only be specified when readOnly is true")
	}
}

// mountPath checks the path of a mount or device, which no other mount or device of the container
// may have.
func (c *checker) mountPath(p *field.Path, path, missing string) {
	if c.present(p, path, missing) {
		c.noBackstep(p, path)
		c.unique(p, c.mountPaths, path)
	}
}
