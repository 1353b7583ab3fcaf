// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"net"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxAnnotationBytes limits the total size of a pod's annotations.
const maxAnnotationBytes = 256 << 10

// Validate checks a pod after defaulting and returns all errors in the order of the fields. It
// covers the part of the API server's validation (1.36) relevant to a static pod. Scheduling
// fields, Windows fields and volumes that require an API object are not checked. It is stricter
// than the server: ".." is rejected in every path, and the UID must be safe as a folder name.
//
// Errors never contain values of environment variables, annotations, arguments and headers.
func Validate(pod *v1.Pod) field.ErrorList {
	r := &report{}
	validateMeta(r, pod, field.NewPath("metadata"))
	validateSpec(r, &pod.Spec, field.NewPath("spec"))
	return r.errs
}

func validateMeta(r *report, pod *v1.Pod, p *field.Path) {
	r.faults(p.Child("name"), pod.Name, validation.IsDNS1123Subdomain(pod.Name))
	r.faults(p.Child("namespace"), pod.Namespace, validation.IsDNS1123Label(pod.Namespace))
	if pod.UID != "" && !isUID(string(pod.UID)) {
		r.errs = append(r.errs, uidError(string(pod.UID))...)
	}
	validateLabels(r, pod.Labels, p.Child("labels"))
	size := 0
	for _, key := range sortedKeys(pod.Annotations) {
		at := p.Child("annotations").Key(shorten(key))
		r.faults(at, key, validation.IsQualifiedName(strings.ToLower(key)))
		size += len(key) + len(pod.Annotations[key])
	}
	if size > maxAnnotationBytes {
		r.errs = append(r.errs, field.TooLong(p.Child("annotations"), "", maxAnnotationBytes))
	}
	for i, f := range pod.Finalizers {
		r.faults(p.Child("finalizers").Index(i), f, validation.IsQualifiedName(f))
	}
}

func validateLabels(r *report, labels map[string]string, p *field.Path) {
	for _, key := range sortedKeys(labels) {
		at := p.Key(shorten(key))
		r.faults(at, key, validation.IsQualifiedName(key))
		r.faults(at, labels[key], validation.IsValidLabelValue(labels[key]))
	}
}

func validateSpec(r *report, spec *v1.PodSpec, p *field.Path) {
	volumes := validateVolumes(r, spec.Volumes, p.Child("volumes"))
	validateContainers(r, spec, volumes, p)
	oneOf(r, p.Child("restartPolicy"), spec.RestartPolicy,
		v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever)
	if grace := spec.TerminationGracePeriodSeconds; grace != nil {
		r.notNegative(p.Child("terminationGracePeriodSeconds"), *grace)
	}
	if d := spec.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > 1<<31-1) {
		r.number(p.Child("activeDeadlineSeconds"), *d, validation.InclusiveRangeError(1, 1<<31-1))
	}
	validateNetwork(r, spec, p)
	validateLabels(r, spec.NodeSelector, p.Child("nodeSelector"))
	validateTolerations(r, spec.Tolerations, p.Child("tolerations"))
	validateNames(r, spec, p)
	validatePodSecurity(r, spec, p)
	validatePodResources(r, spec, p)
	if len(spec.EphemeralContainers) > 0 {
		r.forbidden(p.Child("ephemeralContainers"), "cannot be set on create")
	}
	if len(spec.SchedulingGates) > 0 {
		r.forbidden(p.Child("schedulingGates"), "nodeName cannot be set until all schedulingGates have been cleared")
	}
	if spec.OS != nil {
		oneOf(r, p.Child("os", "name"), spec.OS.Name, v1.Linux, v1.Windows)
	}
}

func validateNetwork(r *report, spec *v1.PodSpec, p *field.Path) {
	oneOf(r, p.Child("dnsPolicy"), spec.DNSPolicy,
		v1.DNSClusterFirstWithHostNet, v1.DNSClusterFirst, v1.DNSDefault, v1.DNSNone)
	if spec.Hostname != "" {
		r.faults(p.Child("hostname"), spec.Hostname, validation.IsDNS1123Label(spec.Hostname))
	}
	if spec.Subdomain != "" {
		r.faults(p.Child("subdomain"), spec.Subdomain, validation.IsDNS1123Label(spec.Subdomain))
	}
	if spec.HostnameOverride != nil {
		r.faults(p.Child("hostnameOverride"), *spec.HostnameOverride, validation.IsDNS1123Subdomain(*spec.HostnameOverride))
		if spec.HostNetwork {
			r.forbidden(p.Child("hostnameOverride"), "may not be set when hostNetwork is true")
		}
	}
	for i, alias := range spec.HostAliases {
		at := p.Child("hostAliases").Index(i)
		validateIP(r, at.Child("ip"), alias.IP)
		for j, name := range alias.Hostnames {
			r.faults(at.Child("hostnames").Index(j), name, validation.IsDNS1123Subdomain(name))
		}
	}
	validateDNS(r, spec, p.Child("dnsConfig"))
}

func validateDNS(r *report, spec *v1.PodSpec, p *field.Path) {
	dns := spec.DNSConfig
	if spec.DNSPolicy == v1.DNSNone && (dns == nil || len(dns.Nameservers) == 0) {
		r.required(p.Child("nameservers"), "must provide at least one DNS nameserver when dnsPolicy is None")
	}
	if dns == nil {
		return
	}
	for i, server := range dns.Nameservers {
		validateIP(r, p.Child("nameservers").Index(i), server)
	}
	for i, search := range dns.Searches {
		if search != "." {
			r.faults(p.Child("searches").Index(i), search,
				validation.IsDNS1123SubdomainWithUnderscore(strings.TrimSuffix(search, ".")))
		}
	}
	for i, option := range dns.Options {
		if option.Name == "" {
			r.required(p.Child("options").Index(i).Child("name"), "")
		}
	}
}

func validateIP(r *report, p *field.Path, ip string) {
	if net.ParseIP(ip) == nil {
		r.invalid(p, ip, "must be a valid IP address")
	}
}

func validateTolerations(r *report, tolerations []v1.Toleration, p *field.Path) {
	for i, t := range tolerations {
		at := p.Index(i)
		if t.Key != "" {
			r.faults(at.Child("key"), t.Key, validation.IsQualifiedName(t.Key))
		} else if t.Operator != v1.TolerationOpExists {
			r.invalid(at.Child("operator"), string(t.Operator), "must be Exists when key is empty")
		}
		switch t.Operator {
		case v1.TolerationOpEqual, "":
			r.faults(at.Child("value"), t.Value, validation.IsValidLabelValue(t.Value))
		case v1.TolerationOpExists:
			if t.Value != "" {
				r.invalid(at.Child("value"), t.Value, "must be empty when operator is Exists")
			}
		default:
			optionalOneOf(r, at.Child("operator"), &t.Operator, v1.TolerationOpEqual, v1.TolerationOpExists,
				v1.TolerationOpLt, v1.TolerationOpGt)
		}
		if t.Effect != "" {
			oneOf(r, at.Child("effect"), t.Effect,
				v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute)
		}
		if t.TolerationSeconds != nil && t.Effect != v1.TaintEffectNoExecute {
			r.invalid(at.Child("effect"), string(t.Effect), "must be NoExecute when tolerationSeconds is set")
		}
	}
}

// validateNames checks the names of other objects, because some names become parts of paths.
func validateNames(r *report, spec *v1.PodSpec, p *field.Path) {
	if spec.ServiceAccountName != "" {
		r.faults(p.Child("serviceAccountName"), spec.ServiceAccountName,
			validation.IsDNS1123Subdomain(spec.ServiceAccountName))
	}
	if spec.RuntimeClassName != nil {
		r.faults(p.Child("runtimeClassName"), *spec.RuntimeClassName, validation.IsDNS1123Subdomain(*spec.RuntimeClassName))
	}
	if spec.PriorityClassName != "" {
		r.faults(p.Child("priorityClassName"), spec.PriorityClassName, validation.IsDNS1123Subdomain(spec.PriorityClassName))
	}
	for i, gate := range spec.ReadinessGates {
		r.faults(p.Child("readinessGates").Index(i).Child("conditionType"), string(gate.ConditionType),
			validation.IsQualifiedName(string(gate.ConditionType)))
	}
	seen := map[string]bool{}
	for i, claim := range spec.ResourceClaims {
		at := p.Child("resourceClaims").Index(i).Child("name")
		r.faults(at, claim.Name, validation.IsDNS1123Label(claim.Name))
		r.unique(at, seen, claim.Name)
	}
}
