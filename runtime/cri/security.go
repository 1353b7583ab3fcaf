// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// Paths below /proc and /sys which reveal or change too much of the node, as in the 1.36 kubelet.
func maskedPaths() []string {
	return []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap",
	}
}

func readonlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}

// effectiveSecurity is the container's security context, with unset fields filled in from the
// pod's. The result shares pointers with both.
func effectiveSecurity(pod *v1.Pod, c *v1.Container) v1.SecurityContext {
	var out v1.SecurityContext
	if c.SecurityContext != nil {
		out = *c.SecurityContext
	}
	p := pod.Spec.SecurityContext
	if p == nil {
		return out
	}
	out.SELinuxOptions = cmp.Or(out.SELinuxOptions, p.SELinuxOptions)
	out.RunAsUser = cmp.Or(out.RunAsUser, p.RunAsUser)
	out.RunAsGroup = cmp.Or(out.RunAsGroup, p.RunAsGroup)
	out.RunAsNonRoot = cmp.Or(out.RunAsNonRoot, p.RunAsNonRoot)
	out.SeccompProfile = cmp.Or(out.SeccompProfile, p.SeccompProfile)
	out.AppArmorProfile = cmp.Or(out.AppArmorProfile, p.AppArmorProfile)
	return out
}

// isSet reports whether a flag is there and true.
func isSet(flag *bool) bool { return flag != nil && *flag }

// isPrivileged reports whether any container of the pod is privileged.
func isPrivileged(pod *v1.Pod) bool {
	for c := range podfacts.AllContainers(&pod.Spec) {
		if c.SecurityContext != nil && isSet(c.SecurityContext.Privileged) {
			return true
		}
	}
	return false
}

// sandboxSecurity is the security context of the sandbox's own process.
func sandboxSecurity(pod *v1.Pod) (*api.LinuxSandboxSecurityContext, error) {
	out := &api.LinuxSandboxSecurityContext{
		NamespaceOptions: namespaceOptions(pod),
		Privileged:       isPrivileged(pod),
		Seccomp:          &api.SecurityProfile{ProfileType: api.SecurityProfile_RuntimeDefault},
	}
	sc := pod.Spec.SecurityContext
	if sc == nil {
		return out, nil
	}
	out.SelinuxOptions = selinuxOptions(sc.SELinuxOptions)
	out.RunAsUser = int64Value(sc.RunAsUser)
	if sc.RunAsUser != nil {
		out.RunAsGroup = int64Value(sc.RunAsGroup)
	}
	var err error
	out.SupplementalGroups = supplementalGroups(sc)
	out.SupplementalGroupsPolicy, err = groupsPolicy(sc)
	return out, err
}

// containerSecurity is the security context of one container, except for its namespaces. The errors
// name the field.
func containerSecurity(pod *v1.Pod, c *v1.Container, image imageUser, opts *Options) (*api.LinuxContainerSecurityContext, error) {
	sc := effectiveSecurity(pod, c)
	out := &api.LinuxContainerSecurityContext{
		Privileged:     isSet(sc.Privileged),
		SelinuxOptions: selinuxOptions(sc.SELinuxOptions),
		ReadonlyRootfs: isSet(sc.ReadOnlyRootFilesystem),
		NoNewPrivs:     sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
	}
	if sc.Capabilities != nil {
		out.Capabilities = &api.Capability{AddCapabilities: capabilities(sc.Capabilities.Add), DropCapabilities: capabilities(sc.Capabilities.Drop)}
	}
	if sc.ProcMount == nil || *sc.ProcMount != v1.UnmaskedProcMount {
		out.MaskedPaths, out.ReadonlyPaths = maskedPaths(), readonlyPaths()
	}
	var err error
	if out.Seccomp, err = seccompProfile(&sc, opts); err != nil {
		return nil, err
	}
	if out.Apparmor, err = appArmorProfile(pod, c.Name, sc.AppArmorProfile); err != nil {
		return nil, err
	}
	if err = setUser(out, &sc, image); err != nil {
		return nil, err
	}
	if p := pod.Spec.SecurityContext; p != nil {
		out.SupplementalGroups = supplementalGroups(p)
		out.SupplementalGroupsPolicy, err = groupsPolicy(p)
	}
	return out, err
}

func int64Value(n *int64) *api.Int64Value {
	if n == nil {
		return nil
	}
	return &api.Int64Value{Value: *n}
}

func selinuxOptions(o *v1.SELinuxOptions) *api.SELinuxOption {
	if o == nil {
		return nil
	}
	return &api.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

func capabilities(in []v1.Capability) []string {
	var out []string
	for _, c := range in {
		out = append(out, string(c))
	}
	return out
}

// supplementalGroups returns the pod's fsGroup and supplementalGroups.
func supplementalGroups(sc *v1.PodSecurityContext) []int64 {
	var out []int64
	if sc.FSGroup != nil {
		out = append(out, *sc.FSGroup)
	}
	return append(out, sc.SupplementalGroups...)
}

func groupsPolicy(sc *v1.PodSecurityContext) (api.SupplementalGroupsPolicy, error) {
	if sc.SupplementalGroupsPolicy == nil {
		return api.SupplementalGroupsPolicy_Merge, nil
	}
	switch *sc.SupplementalGroupsPolicy {
	case v1.SupplementalGroupsPolicyMerge:
		return api.SupplementalGroupsPolicy_Merge, nil
	case v1.SupplementalGroupsPolicyStrict:
		return api.SupplementalGroupsPolicy_Strict, nil
	default:
		return 0, fmt.Errorf("spec.securityContext.supplementalGroupsPolicy: %q is not known", *sc.SupplementalGroupsPolicy)
	}
}

// seccompProfile is the container's profile, the pod's, or the default of the options.
func seccompProfile(sc *v1.SecurityContext, opts *Options) (*api.SecurityProfile, error) {
	profile := sc.SeccompProfile
	if profile == nil {
		if opts.SeccompDefault && !isSet(sc.Privileged) {
			return &api.SecurityProfile{ProfileType: api.SecurityProfile_RuntimeDefault}, nil
		}
		return &api.SecurityProfile{ProfileType: api.SecurityProfile_Unconfined}, nil
	}
	switch profile.Type {
	case v1.SeccompProfileTypeRuntimeDefault:
		return &api.SecurityProfile{ProfileType: api.SecurityProfile_RuntimeDefault}, nil
	case v1.SeccompProfileTypeUnconfined:
		return &api.SecurityProfile{ProfileType: api.SecurityProfile_Unconfined}, nil
	case v1.SeccompProfileTypeLocalhost:
		file := profile.LocalhostProfile
		if file == nil || !filepath.IsLocal(*file) {
			return nil, fmt.Errorf("securityContext.seccompProfile.localhostProfile: want a path below the node's directory of profiles")
		}
		return &api.SecurityProfile{ProfileType: api.SecurityProfile_Localhost, LocalhostRef: filepath.Join(opts.Root, "seccomp", *file)}, nil
	default:
		return nil, fmt.Errorf("securityContext.seccompProfile.type: %q is not known", profile.Type)
	}
}

// refusedSeccomp lists the pod's seccomp annotations without an equivalent field. The kubelet has
// ignored the annotations since 1.27, and the container would run unconfined.
func refusedSeccomp(pod *v1.Pod) []string {
	var fields []string
	refuse := func(key string) {
		fields = append(fields, "metadata.annotations["+key+"] (set securityContext.seccompProfile instead)")
	}
	_, whole := pod.Annotations[v1.SeccompPodAnnotationKey]
	open := false // a container without its own profile
	for c := range podfacts.AllContainers(&pod.Spec) {
		if effectiveSecurity(pod, c).SeccompProfile != nil {
			continue
		}
		open = true
		if _, asked := pod.Annotations[v1.SeccompContainerAnnotationKeyPrefix+c.Name]; asked {
			refuse(v1.SeccompContainerAnnotationKeyPrefix + c.Name)
		}
	}
	if whole && open {
		refuse(v1.SeccompPodAnnotationKey)
	}
	return fields
}

// Values of the AppArmor annotations, older than the field (1.30).
const (
	appArmorKey       = v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix
	appArmorLocalhost = v1.DeprecatedAppArmorBetaProfileNamePrefix
)

// appArmorProfile returns nil if no profile is requested: the runtime decides.
func appArmorProfile(pod *v1.Pod, container string, profile *v1.AppArmorProfile) (*api.SecurityProfile, error) {
	if profile == nil {
		var err error
		if profile, err = appArmorOfAnnotation(pod.Annotations[appArmorKey+container]); err != nil || profile == nil {
			return nil, err
		}
	}
	switch profile.Type {
	case v1.AppArmorProfileTypeRuntimeDefault:
		return &api.SecurityProfile{ProfileType: api.SecurityProfile_RuntimeDefault}, nil
	case v1.AppArmorProfileTypeUnconfined:
		return &api.SecurityProfile{ProfileType: api.SecurityProfile_Unconfined}, nil
	case v1.AppArmorProfileTypeLocalhost:
		if profile.LocalhostProfile == nil || *profile.LocalhostProfile == "" {
			return nil, fmt.Errorf("securityContext.appArmorProfile.localhostProfile: is missing")
		}
		return &api.SecurityProfile{ProfileType: api.SecurityProfile_Localhost, LocalhostRef: *profile.LocalhostProfile}, nil
	default:
		return nil, fmt.Errorf("securityContext.appArmorProfile.type: %q is not known", profile.Type)
	}
}

func appArmorOfAnnotation(value string) (*v1.AppArmorProfile, error) {
	name, localhost := strings.CutPrefix(value, appArmorLocalhost)
	switch {
	case value == "":
		return nil, nil
	case localhost:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}, nil
	case value == v1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}, nil
	case value == v1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}, nil
	default:
		return nil, fmt.Errorf("metadata.annotations[%s…]: %q is no AppArmor profile", appArmorKey, value)
	}
}
