// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (c *checker) podSecurity(sc *v1.PodSecurityContext, p *field.Path) {
	c.user(sc.RunAsUser, p.Child("runAsUser"))
	c.group(sc.RunAsGroup, p.Child("runAsGroup"))
	c.group(sc.FSGroup, p.Child("fsGroup"))
	for i := range sc.SupplementalGroups {
		c.group(&sc.SupplementalGroups[i], p.Child("supplementalGroups").Index(i))
	}
	optionalOneOf(&c.report, p.Child("fsGroupChangePolicy"), sc.FSGroupChangePolicy,
		v1.FSGroupChangeOnRootMismatch, v1.FSGroupChangeAlways)
	seen := used{}
	for i, s := range sc.Sysctls {
		name := p.Child("sysctls").Index(i).Child("name")
		if !c.present(name, s.Name, "") {
			continue
		}
		if !isSysctl(s.Name) {
			c.invalid(name, s.Name, "must be segments of lower case letters, digits, '-' and '_', joined by '.' or '/', at most 253 bytes, as in net.core.somaxconn")
		}
		c.unique(name, seen, s.Name)
	}
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

func (c *checker) security(sc *v1.SecurityContext, p *field.Path) {
	c.user(sc.RunAsUser, p.Child("runAsUser"))
	c.group(sc.RunAsGroup, p.Child("runAsGroup"))
	optionalOneOf(&c.report, p.Child("procMount"), sc.ProcMount, v1.DefaultProcMount, v1.UnmaskedProcMount)
	if sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation && isPrivileged(sc) {
		c.forbidden(p.Child("allowPrivilegeEscalation"), "may not be false when privileged is true")
	}
}

func isPrivileged(sc *v1.SecurityContext) bool {
	return sc != nil && sc.Privileged != nil && *sc.Privileged
}

func (c *checker) user(id *int64, p *field.Path) {
	if id != nil {
		c.numberFaults(p, *id, validation.IsValidUserID(*id))
	}
}

func (c *checker) group(id *int64, p *field.Path) {
	if id != nil {
		c.numberFaults(p, *id, validation.IsValidGroupID(*id))
	}
}

func (c *checker) seccomp(profile *v1.SeccompProfile, p *field.Path) {
	oneOf(&c.report, p.Child("type"), profile.Type, v1.SeccompProfileTypeUnconfined,
		v1.SeccompProfileTypeRuntimeDefault, v1.SeccompProfileTypeLocalhost)
	c.localhostProfile(profile.LocalhostProfile, profile.Type == v1.SeccompProfileTypeLocalhost, p)
	if profile.LocalhostProfile != nil {
		c.descending(p.Child("localhostProfile"), *profile.LocalhostProfile)
	}
}

// localhostProfile checks the name of a profile on the node, which belongs to the type Localhost.
func (c *checker) localhostProfile(profile *string, isLocalhost bool, p *field.Path) {
	switch at := p.Child("localhostProfile"); {
	case isLocalhost && (profile == nil || *profile == ""):
		c.required(at, "must be set when type is Localhost")
	case !isLocalhost && profile != nil:
		c.forbidden(at, "can only be set when type is Localhost")
	}
}
