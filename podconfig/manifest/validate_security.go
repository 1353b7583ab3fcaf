// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validatePodSecurity(r *report, spec *v1.PodSpec, p *field.Path) {
	if spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace && spec.HostPID {
		r.forbidden(p.Child("shareProcessNamespace"), "may not be set together with hostPID")
	}
	sc := spec.SecurityContext
	if sc == nil {
		return
	}
	at := p.Child("securityContext")
	validateUserID(r, sc.RunAsUser, at.Child("runAsUser"))
	validateGroupID(r, sc.RunAsGroup, at.Child("runAsGroup"))
	validateGroupID(r, sc.FSGroup, at.Child("fsGroup"))
	for i := range sc.SupplementalGroups {
		validateGroupID(r, &sc.SupplementalGroups[i], at.Child("supplementalGroups").Index(i))
	}
	optionalOneOf(r, at.Child("fsGroupChangePolicy"), sc.FSGroupChangePolicy,
		v1.FSGroupChangeOnRootMismatch, v1.FSGroupChangeAlways)
	seen := map[string]bool{}
	for i, s := range sc.Sysctls {
		name := at.Child("sysctls").Index(i).Child("name")
		if s.Name == "" {
			r.required(name, "")
			continue
		}
		if !isSysctl(s.Name) {
			r.invalid(name, s.Name, "must be segments of lower case letters, digits, '-' and '_', joined by '.' or '/', at most 253 bytes, as in net.core.somaxconn")
		}
		r.unique(name, seen, s.Name)
	}
	validateProfiles(r, sc.SeccompProfile, sc.AppArmorProfile, at)
}

// isSysctl reports whether name is a kernel parameter, which becomes a path below /proc/sys. Each
// segment begins and ends with a letter or digit, and so differs from "..".
func isSysctl(name string) bool {
	alphanumeric := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
	for segment := range strings.SplitSeq(strings.ReplaceAll(name, "/", "."), ".") {
		if segment == "" || !alphanumeric(segment[0]) || !alphanumeric(segment[len(segment)-1]) {
			return false
		}
		for i := range len(segment) {
			if c := segment[i]; !alphanumeric(c) && c != '-' && c != '_' {
				return false
			}
		}
	}
	return len(name) <= validation.DNS1123SubdomainMaxLength
}

func validateSecurity(r *report, sc *v1.SecurityContext, p *field.Path) {
	if sc == nil {
		return
	}
	validateUserID(r, sc.RunAsUser, p.Child("runAsUser"))
	validateGroupID(r, sc.RunAsGroup, p.Child("runAsGroup"))
	optionalOneOf(r, p.Child("procMount"), sc.ProcMount, v1.DefaultProcMount, v1.UnmaskedProcMount)
	if sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation && sc.Privileged != nil && *sc.Privileged {
		r.forbidden(p.Child("allowPrivilegeEscalation"), "may not be false when privileged is true")
	}
	validateProfiles(r, sc.SeccompProfile, sc.AppArmorProfile, p)
}

func validateUserID(r *report, id *int64, p *field.Path) {
	if id != nil {
		for _, complaint := range validation.IsValidUserID(*id) {
			r.number(p, *id, complaint)
		}
	}
}

func validateGroupID(r *report, id *int64, p *field.Path) {
	if id != nil {
		for _, complaint := range validation.IsValidGroupID(*id) {
			r.number(p, *id, complaint)
		}
	}
}

func validateProfiles(r *report, seccomp *v1.SeccompProfile, appArmor *v1.AppArmorProfile, p *field.Path) {
	if seccomp != nil {
		at := p.Child("seccompProfile")
		oneOf(r, at.Child("type"), seccomp.Type, v1.SeccompProfileTypeUnconfined,
			v1.SeccompProfileTypeRuntimeDefault, v1.SeccompProfileTypeLocalhost)
		validateProfile(r, seccomp.LocalhostProfile, seccomp.Type == v1.SeccompProfileTypeLocalhost, at)
		if seccomp.LocalhostProfile != nil {
			r.descending(at.Child("localhostProfile"), *seccomp.LocalhostProfile)
		}
	}
	if appArmor != nil {
		at := p.Child("appArmorProfile")
		oneOf(r, at.Child("type"), appArmor.Type, v1.AppArmorProfileTypeUnconfined,
			v1.AppArmorProfileTypeRuntimeDefault, v1.AppArmorProfileTypeLocalhost)
		validateProfile(r, appArmor.LocalhostProfile, appArmor.Type == v1.AppArmorProfileTypeLocalhost, at)
	}
}

func validateProfile(r *report, profile *string, local bool, p *field.Path) {
	switch at := p.Child("localhostProfile"); {
	case local && (profile == nil || *profile == ""):
		r.required(at, "must be set when type is Localhost")
	case !local && profile != nil:
		r.forbidden(at, "can only be set when type is Localhost")
	}
}
