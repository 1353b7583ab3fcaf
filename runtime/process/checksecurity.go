// SPDX-License-Identifier: Apache-2.0

package process

import v1 "k8s.io/api/core/v1"

// podSecurity checks the pod's security context. What asks for nothing but what
// an ordinary process of this user already is passes.
func (c *check) podSecurity(at string, sc *v1.PodSecurityContext) {
	c.refuse(sc.SELinuxOptions != nil, at+".seLinuxOptions", whyRights)
	c.refuse(sc.WindowsOptions != nil, at+".windowsOptions", "this is "+c.goos)
	c.user(at, sc.RunAsUser, sc.RunAsGroup, sc.RunAsNonRoot)
	c.refuse(len(sc.SupplementalGroups) > 0, at+".supplementalGroups", whyRights)
	c.refuse(sc.SupplementalGroupsPolicy != nil && *sc.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict,
		at+".supplementalGroupsPolicy", whyRights)
	c.refuse(sc.FSGroup != nil && *sc.FSGroup != c.gid, at+".fsGroup", whyRights)
	c.refuse(len(sc.Sysctls) > 0, at+".sysctls", whyIsolated)
	c.refuse(confines(sc.SeccompProfile), at+".seccompProfile", whyIsolated)
	c.refuse(sc.AppArmorProfile != nil && sc.AppArmorProfile.Type != v1.AppArmorProfileTypeUnconfined,
		at+".appArmorProfile", whyIsolated)
}

// security checks a container's security context.
func (c *check) security(at string, sc *v1.SecurityContext) {
	if caps := sc.Capabilities; caps != nil {
		c.refuse(len(caps.Add) > 0, at+".capabilities.add", whyRights)
		// A process that is not root has none to drop.
		c.refuse(len(caps.Drop) > 0 && c.uid == 0, at+".capabilities.drop", whyRights)
	}
	c.refuse(isTrue(sc.Privileged), at+".privileged", whyRights)
	c.refuse(sc.SELinuxOptions != nil, at+".seLinuxOptions", whyRights)
	c.refuse(sc.WindowsOptions != nil, at+".windowsOptions", "this is "+c.goos)
	c.user(at, sc.RunAsUser, sc.RunAsGroup, sc.RunAsNonRoot)
	c.refuse(isTrue(sc.ReadOnlyRootFilesystem), at+".readOnlyRootFilesystem", whyHost)
	// allowPrivilegeEscalation: false is honoured where the kernel can.
	c.refuse(sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation && c.goos != "linux",
		at+".allowPrivilegeEscalation", whyRights)
	c.refuse(sc.ProcMount != nil && *sc.ProcMount != v1.DefaultProcMount, at+".procMount", whyHost)
	c.refuse(confines(sc.SeccompProfile), at+".seccompProfile", whyIsolated)
	c.refuse(sc.AppArmorProfile != nil && sc.AppArmorProfile.Type != v1.AppArmorProfileTypeUnconfined,
		at+".appArmorProfile", whyIsolated)
}

// user checks who a process shall run as: only who runs the agent.
func (c *check) user(at string, uid, gid *int64, nonRoot *bool) {
	c.refuse(uid != nil && *uid != c.uid, at+".runAsUser", whyRights)
	c.refuse(gid != nil && *gid != c.gid, at+".runAsGroup", whyRights)
	c.refuse(isTrue(nonRoot) && c.uid == 0, at+".runAsNonRoot", "the agent is root")
}

func confines(p *v1.SeccompProfile) bool {
	return p != nil && p.Type != v1.SeccompProfileTypeUnconfined
}
