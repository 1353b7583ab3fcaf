// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxAnnotationBytes limits the total size of a pod's annotations.
const maxAnnotationBytes = 256 << 10

// Validate checks a pod after defaulting and returns all errors in the order of the fields; the
// errors of an object precede the errors of the objects inside it. It covers the part of the API
// server's validation (1.36) relevant to a static pod. Scheduling fields, Windows fields and
// volumes that require an API object are not checked. It is stricter than the server: ".." is
// rejected in every path, and the UID must be safe as a folder name.
//
// Errors never contain values of environment variables, annotations, arguments and headers.
func Validate(pod *v1.Pod) field.ErrorList {
	c := &checker{spec: &pod.Spec, claims: used{}, names: used{}, hostPorts: used{}, volumes: map[string]*v1.Volume{}}
	c.meta(pod, field.NewPath("metadata"))
	visit(reflect.ValueOf(c.spec), field.NewPath("spec"), c.object)
	return c.errs
}

// used holds the values found so far of a list in which each value is unique.
type used map[string]bool

// checker checks the objects of a pod spec.
type checker struct {
	report
	spec             *v1.PodSpec
	volumes          map[string]*v1.Volume // the volumes seen, by name
	claims           used                  // names of resource claims
	names, hostPorts used                  // of all containers

	container  *v1.Container // the last container seen
	isInit     bool          // container is an init container other than a sidecar
	portNames  used          // of container
	mountPaths used          // of container
}

// object checks the fields of x other than objects. It returns false if the objects inside x need
// no check.
func (c *checker) object(x any, p *field.Path) bool {
	switch x := x.(type) {
	case *v1.PodSpec:
		c.podSpec(x, p)
	case *v1.HostAlias:
		c.ip(p.Child("ip"), x.IP)
		for i, name := range x.Hostnames {
			c.match(p.Child("hostnames").Index(i), name, validation.IsDNS1123Subdomain)
		}
	case *v1.PodDNSConfig:
		c.dns(x, p)
	case *v1.Toleration:
		c.toleration(x, p)
	case *v1.PodReadinessGate:
		c.match(p.Child("conditionType"), string(x.ConditionType), validation.IsQualifiedName)
	case *v1.PodResourceClaim:
		c.match(p.Child("name"), x.Name, validation.IsDNS1123Label)
		c.unique(p.Child("name"), c.claims, x.Name)
	case *v1.PodOS:
		oneOf(&c.report, p.Child("name"), x.Name, v1.Linux, v1.Windows)
	case *v1.PodSecurityContext:
		c.podSecurity(x, p)
	case *v1.SecurityContext:
		c.security(x, p)
	case *v1.SeccompProfile:
		c.seccomp(x, p)
	case *v1.AppArmorProfile:
		oneOf(&c.report, p.Child("type"), x.Type, v1.AppArmorProfileTypeUnconfined,
			v1.AppArmorProfileTypeRuntimeDefault, v1.AppArmorProfileTypeLocalhost)
		c.localhostProfile(x.LocalhostProfile, x.Type == v1.AppArmorProfileTypeLocalhost, p)
	case *v1.ResourceRequirements:
		c.resources(x, p)
	case *v1.EphemeralContainer:
		return false // forbidden as a whole
	default:
		c.volumeObject(x, p)
		c.containerObject(x, p)
	}
	return true
}

func (c *checker) meta(pod *v1.Pod, p *field.Path) {
	c.match(p.Child("name"), pod.Name, validation.IsDNS1123Subdomain)
	c.match(p.Child("namespace"), pod.Namespace, validation.IsDNS1123Label)
	if pod.UID != "" && !isUID(string(pod.UID)) {
		c.errs = append(c.errs, uidError(string(pod.UID))...)
	}
	c.labels(pod.Labels, p.Child("labels"))
	size := 0
	for _, key := range sortedKeys(pod.Annotations) {
		c.faults(p.Child("annotations").Key(shorten(key)), key, validation.IsQualifiedName(strings.ToLower(key)))
		size += len(key) + len(pod.Annotations[key])
	}
	if size > maxAnnotationBytes {
		c.errs = append(c.errs, field.TooLong(p.Child("annotations"), "", maxAnnotationBytes))
	}
	for i, f := range pod.Finalizers {
		c.match(p.Child("finalizers").Index(i), f, validation.IsQualifiedName)
	}
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}

func (c *checker) labels(labels map[string]string, p *field.Path) {
	for _, key := range sortedKeys(labels) {
		at := p.Key(shorten(key))
		c.match(at, key, validation.IsQualifiedName)
		c.match(at, labels[key], validation.IsValidLabelValue)
	}
}

func (c *checker) podSpec(spec *v1.PodSpec, p *field.Path) {
	if len(spec.Containers) == 0 {
		c.required(p.Child("containers"), "a pod needs at least one container")
	}
	oneOf(&c.report, p.Child("restartPolicy"), spec.RestartPolicy,
		v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever)
	if grace := spec.TerminationGracePeriodSeconds; grace != nil {
		c.notNegative(p.Child("terminationGracePeriodSeconds"), *grace)
	}
	if d := spec.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > 1<<31-1) {
		c.number(p.Child("activeDeadlineSeconds"), *d, validation.InclusiveRangeError(1, 1<<31-1))
	}
	c.network(spec, p)
	c.labels(spec.NodeSelector, p.Child("nodeSelector"))
	// Names of other objects may become parts of paths.
	c.optional(p.Child("serviceAccountName"), spec.ServiceAccountName, validation.IsDNS1123Subdomain)
	if spec.RuntimeClassName != nil {
		c.match(p.Child("runtimeClassName"), *spec.RuntimeClassName, validation.IsDNS1123Subdomain)
	}
	c.optional(p.Child("priorityClassName"), spec.PriorityClassName, validation.IsDNS1123Subdomain)
	if spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace && spec.HostPID {
		c.forbidden(p.Child("shareProcessNamespace"), "may not be set together with hostPID")
	}
	for _, name := range sortedKeys(spec.Overhead) {
		c.quantity(spec.Overhead, name, p.Child("overhead").Key(shorten(string(name))))
	}
	if len(spec.EphemeralContainers) > 0 {
		c.forbidden(p.Child("ephemeralContainers"), "cannot be set on create")
	}
	if len(spec.SchedulingGates) > 0 {
		c.forbidden(p.Child("schedulingGates"), "nodeName cannot be set until all schedulingGates have been cleared")
	}
}

func (c *checker) network(spec *v1.PodSpec, p *field.Path) {
	oneOf(&c.report, p.Child("dnsPolicy"), spec.DNSPolicy,
		v1.DNSClusterFirstWithHostNet, v1.DNSClusterFirst, v1.DNSDefault, v1.DNSNone)
	if spec.DNSPolicy == v1.DNSNone && (spec.DNSConfig == nil || len(spec.DNSConfig.Nameservers) == 0) {
		c.required(p.Child("dnsConfig", "nameservers"), "must provide at least one DNS nameserver when dnsPolicy is None")
	}
	c.optional(p.Child("hostname"), spec.Hostname, validation.IsDNS1123Label)
	c.optional(p.Child("subdomain"), spec.Subdomain, validation.IsDNS1123Label)
	if spec.HostnameOverride != nil {
		c.match(p.Child("hostnameOverride"), *spec.HostnameOverride, validation.IsDNS1123Subdomain)
		if spec.HostNetwork {
			c.forbidden(p.Child("hostnameOverride"), "may not be set when hostNetwork is true")
		}
	}
}

func (c *checker) dns(dns *v1.PodDNSConfig, p *field.Path) {
	for i, server := range dns.Nameservers {
		c.ip(p.Child("nameservers").Index(i), server)
	}
	for i, search := range dns.Searches {
		if search != "." {
			c.faults(p.Child("searches").Index(i), search,
				validation.IsDNS1123SubdomainWithUnderscore(strings.TrimSuffix(search, ".")))
		}
	}
	for i, option := range dns.Options {
		c.present(p.Child("options").Index(i).Child("name"), option.Name, "")
	}
}

func (c *checker) ip(p *field.Path, ip string) {
	if net.ParseIP(ip) == nil {
		c.invalid(p, ip, "must be a valid IP address")
	}
}

func (c *checker) toleration(t *v1.Toleration, p *field.Path) {
	if t.Key != "" {
		c.match(p.Child("key"), t.Key, validation.IsQualifiedName)
	} else if t.Operator != v1.TolerationOpExists {
		c.invalid(p.Child("operator"), string(t.Operator), "must be Exists when key is empty")
	}
	switch t.Operator {
	case v1.TolerationOpEqual, "":
		c.match(p.Child("value"), t.Value, validation.IsValidLabelValue)
	case v1.TolerationOpExists:
		if t.Value != "" {
			c.invalid(p.Child("value"), t.Value, "must be empty when operator is Exists")
		}
	default:
		optionalOneOf(&c.report, p.Child("operator"), &t.Operator, v1.TolerationOpEqual, v1.TolerationOpExists,
			v1.TolerationOpLt, v1.TolerationOpGt)
	}
	if t.Effect != "" {
		oneOf(&c.report, p.Child("effect"), t.Effect,
			v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute)
	}
	if t.TolerationSeconds != nil && t.Effect != v1.TaintEffectNoExecute {
		c.invalid(p.Child("effect"), string(t.Effect), "must be NoExecute when tolerationSeconds is set")
	}
}
