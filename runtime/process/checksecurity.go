// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process/internal/walls"
)

// podSecurity checks the pod's security context. Fields that ask for no more than an ordinary
// process of this user has are accepted.
func (c *check) podSecurity(at string, sc *v1.PodSecurityContext) {
	c.refuse(sc.SELinuxOptions != nil, at+".seLinuxOptions", whyRights)
	c.refuse(sc.WindowsOptions != nil, at+".windowsOptions", "this is "+c.goos)
	c.user(at, sc.RunAsUser, sc.RunAsGroup, sc.RunAsNonRoot)
	c.refuse(len(sc.SupplementalGroups) > 0 && !c.anyGroup(), at+".supplementalGroups", whyRights)
	c.refuse(sc.SupplementalGroupsPolicy != nil && *sc.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict,
		at+".supplementalGroupsPolicy", whyRights)
	c.refuse(sc.FSGroup != nil && *sc.FSGroup != c.gid && !c.mapped, at+".fsGroup", whyRights)
	c.refuse(len(sc.Sysctls) > 0, at+".sysctls", whyIsolated)
	c.seccomp(at, sc.SeccompProfile)
	c.refuse(sc.AppArmorProfile != nil && sc.AppArmorProfile.Type != v1.AppArmorProfileTypeUnconfined,
		at+".appArmorProfile", whyIsolated)
}

// mapsGroup reports whether the fsGroup of a pod is the group of each container, and the kernel maps this
// group to the agent's: then the agent's files have the fsGroup inside of the containers. The group of an
// image is known later, and does not count.
func (c *check) mapsGroup(pod *v1.Pod) bool {
	sc := pod.Spec.SecurityContext
	if sc == nil || sc.FSGroup == nil || !c.isolated || !c.host.OwnUser() {
		return false
	}
	all := true
	eachContainer(pod, func(_ string, ct *v1.Container) {
		group := walls.AskOf(sc, ct.SecurityContext, c.confine).Group
		all = all && group != nil && *group == *sc.FSGroup
	})
	return all
}

// FSGroup returns the group that the files of a pod's volumes need on the host for the pod's fsGroup, nil
// for none. A backend with Options.Lenient leaves out an fsGroup that it cannot honour.
func (r *Runtime) FSGroup(pod *v1.Pod) *int64 {
	c, sc := r.newCheck(), pod.Spec.SecurityContext
	switch {
	case sc == nil || sc.FSGroup == nil:
		return nil
	case c.mapsGroup(pod):
		return &c.gid
	case c.uid != 0 && *sc.FSGroup != c.gid:
		return nil
	}
	return sc.FSGroup
}

// annotations checks the annotations of profiles from the time before seccomp (1.19) and AppArmor
// (1.30) had fields. The profile "unconfined" is accepted.
func (c *check) annotations(annotations map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		profile := key == v1.SeccompPodAnnotationKey || strings.HasPrefix(key, v1.SeccompContainerAnnotationKeyPrefix) ||
			strings.HasPrefix(key, v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
		c.refuse(profile && annotations[key] != v1.DeprecatedAppArmorBetaProfileNameUnconfined, "metadata.annotations["+key+"]", whyIsolated)
	}
}

// checkGroups refuses supplemental groups of volumes unless this process is a member of the group.
// A container has the rights of this process.
func (r *Runtime) checkGroups(groups []int64) error {
	if len(groups) == 0 || r.lenient || r.newCheck().anyGroup() {
		return nil
	}
	own, err := os.Getgroups()
	if err != nil {
		return fmt.Errorf("groups of this process: %w", err)
	}
	return refuseGroups(groups, append(own, os.Getegid()), os.Geteuid())
}

// refuseGroups refuses the groups that are not among own. Root needs no groups.
func refuseGroups(groups []int64, own []int, uid int) error {
	var refused []string
	for _, group := range groups {
		if uid != 0 && !slices.Contains(own, int(group)) {
			refused = append(refused, fmt.Sprintf("group %d of a volume (%s)", group, whyRights))
		}
	}
	if len(refused) > 0 {
		return &runtime.UnsupportedError{Runtime: name, Fields: refused}
	}
	return nil
}

// security checks a container's security context.
func (c *check) security(at string, sc *v1.SecurityContext, ask walls.Ask) {
	for _, u := range c.host.Unmet(ask) {
		c.refuse(true, at+"."+u.Field, u.Why)
	}
	c.refuse(isTrue(sc.Privileged), at+".privileged", whyRights)
	c.refuse(sc.SELinuxOptions != nil, at+".seLinuxOptions", whyRights)
	c.refuse(sc.WindowsOptions != nil, at+".windowsOptions", "this is "+c.goos)
	c.user(at, sc.RunAsUser, sc.RunAsGroup, sc.RunAsNonRoot)
	c.refuse(sc.ProcMount != nil && *sc.ProcMount != v1.DefaultProcMount, at+".procMount", whyHost)
	c.seccomp(at, sc.SeccompProfile)
	c.refuse(sc.AppArmorProfile != nil && sc.AppArmorProfile.Type != v1.AppArmorProfileTypeUnconfined,
		at+".appArmorProfile", whyIsolated)
}

// needed returns the capabilities to add without NET_BIND_SERVICE, if every user of this machine may
// listen on the container's ports.
func (c *check) needed(add []string, ports []v1.ContainerPort) []string {
	least := 1
	if len(ports) > 0 {
		least = int(slices.MinFunc(ports, func(a, b v1.ContainerPort) int { return cmp.Compare(a.ContainerPort, b.ContainerPort) }).ContainerPort)
	}
	if least < c.host.FreePorts && !c.network {
		return add
	}
	return slices.DeleteFunc(slices.Clone(add), walls.BindsPorts)
}

// user refuses every user and group except the agent's own, unless a container has a root file
// system and a user of its own.
func (c *check) user(at string, uid, gid *int64, nonRoot *bool) {
	c.refuse(uid != nil && *uid != c.uid && !c.isolated, at+".runAsUser", whyRights)
	c.refuse(gid != nil && *gid != c.gid && !c.isolated, at+".runAsGroup", whyRights)
	c.refuse(isTrue(nonRoot) && c.uid == 0 && !c.isolated, at+".runAsNonRoot", "the agent is root")
}

// nonRoot refuses a container with a user of its own that must not run as root and would.
func (c *check) nonRoot(at string, ct *v1.Container) {
	ask := walls.AskOf(c.context, ct.SecurityContext, c.confine)
	user := c.uid
	if ask.User != nil {
		user = *ask.User
	} else if c.images {
		return // the image's user is known later
	}
	c.refuse(ask.NonRoot && user == 0 && c.isolated, at+".securityContext.runAsNonRoot", "the container's user is root")
}

// anyGroup reports whether a container can have groups that the agent does not have.
func (c *check) anyGroup() bool { return c.isolated && !c.host.OwnUser() }

// seccomp refuses a profile that is no path of this node, or cannot be set up on this kernel.
func (c *check) seccomp(at string, p *v1.SeccompProfile) {
	why := c.host.UnmetProfile(p, c.profiles)
	c.refuse(why != "", at+".seccompProfile", why)
}
