// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

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

// checkGroups refuses groups that volumes ask for, unless this process, whose
// rights a container has, is in them.
func (r *Runtime) checkGroups(groups []int64) error {
	if len(groups) == 0 || r.lenient {
		return nil
	}
	own, err := os.Getgroups()
	if err != nil {
		return fmt.Errorf("groups of this process: %w", err)
	}
	return refuseGroups(groups, append(own, os.Getegid()), os.Geteuid())
}

// refuseGroups lists those of groups that a process of these rights does not
// have. Root needs none.
func refuseGroups(groups []int64, own []int, uid int) error {
	var refused []string
	for _, group := range groups {
		if uid != 0 && !slices.Contains(own, int(group)) {
			refused = append(refused, fmt.Sprintf("group %d of a volume (%s)", group, whyRights))
		}
	}
	if len(refused) > 0 {
		return &runtime.UnsupportedError{Runtime: Name, Fields: refused}
	}
	return nil
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
