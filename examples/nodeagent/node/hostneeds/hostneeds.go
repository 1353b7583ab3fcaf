// SPDX-License-Identifier: Apache-2.0

package hostneeds

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// Name is the name of the feature.
const Name = "host-needs"

// Options select the checks.
type Options struct {
	// Root is the folder of the agent, which has the volumes of pods.
	Root string
	// Profiles is the folder of the seccomp profiles of type Localhost. Defaults to "": profiles
	// are not checked.
	Profiles string
	// AppArmor reports whether the kernel enforces profiles of AppArmor. Defaults to nil: not
	// checked.
	AppArmor func() bool
	// Mounts returns the mount table. Defaults to nil: Bidirectional mounts are not checked.
	Mounts func() ([]mount.Info, error)
}

// New returns the feature, for node.Options.Features.
func New(o Options) feature.Feature {
	return feature.Feature{Name: Name, Admit: func(pod *v1.Pod) feature.AdmitResult {
		lacks := o.lacks(pod)
		if len(lacks) == 0 {
			return feature.AdmitResult{}
		}
		return feature.AdmitResult{Reason: admission.ReasonUnsupported, Message: "the host cannot honour: " + strings.Join(lacks, ", ")}
	}}
}

// HasAppArmor reports whether the kernel of this machine enforces profiles of AppArmor.
func HasAppArmor() bool { return isEnforcing("/sys/module/apparmor/parameters/enabled") }

// isEnforcing reads the kernel's parameter. If the parameter exists and cannot be read, isEnforcing
// returns true, and the container runtime decides.
func isEnforcing(path string) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return strings.HasPrefix(string(text), "Y")
}

// lacks returns the fields of a pod that the host cannot honour, each once and with the reason.
func (o *Options) lacks(pod *v1.Pod) (fields []string) {
	add := func(field, why string) {
		if text := field + " (" + why + ")"; why != "" && !slices.Contains(fields, text) {
			fields = append(fields, text)
		}
	}
	for group, containers := range map[string][]v1.Container{"containers": pod.Spec.Containers, "initContainers": pod.Spec.InitContainers} {
		for i := range containers {
			c, at := &containers[i], fmt.Sprintf("spec.%s[%d]", group, i)
			add(o.lacksAppArmor(pod, c, at))
			add(o.lacksSeccomp(pod, c, at))
			for j := range c.VolumeMounts {
				add(fmt.Sprintf("%s.volumeMounts[%d].mountPropagation", at, j), o.lacksSharing(pod, &c.VolumeMounts[j]))
			}
		}
	}
	slices.Sort(fields)
	return fields
}

// lacksAppArmor returns the field with the container's profile if AppArmor is off. The annotations
// from before Kubernetes 1.30 count, if no field is set.
func (o *Options) lacksAppArmor(pod *v1.Pod, c *v1.Container, at string) (field, why string) {
	if o.AppArmor == nil {
		return "", ""
	}
	annotation := v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
	var profile *v1.AppArmorProfile
	isAsked := false
	switch {
	case c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil:
		field, profile = at+".securityContext.appArmorProfile", c.SecurityContext.AppArmorProfile
	case pod.Spec.SecurityContext != nil && pod.Spec.SecurityContext.AppArmorProfile != nil:
		field, profile = "spec.securityContext.appArmorProfile", pod.Spec.SecurityContext.AppArmorProfile
	default:
		value := pod.Annotations[annotation]
		field, isAsked = "metadata.annotations["+annotation+"]", value != "" && value != v1.DeprecatedAppArmorBetaProfileNameUnconfined
	}
	if profile != nil {
		isAsked = profile.Type != v1.AppArmorProfileTypeUnconfined
	}
	if !isAsked || o.AppArmor() {
		return "", ""
	}
	return field, "AppArmor is not enabled"
}

// lacksSeccomp returns the field with the container's profile if the profile has no file.
func (o *Options) lacksSeccomp(pod *v1.Pod, c *v1.Container, at string) (field, why string) {
	var profile *v1.SeccompProfile
	if pod.Spec.SecurityContext != nil {
		field, profile = "spec", pod.Spec.SecurityContext.SeccompProfile
	}
	if c.SecurityContext != nil && c.SecurityContext.SeccompProfile != nil {
		field, profile = at, c.SecurityContext.SeccompProfile
	}
	if o.Profiles == "" || profile == nil || profile.Type != v1.SeccompProfileTypeLocalhost || profile.LocalhostProfile == nil {
		return "", ""
	}
	name := *profile.LocalhostProfile
	if _, err := os.Stat(filepath.Join(o.Profiles, name)); !filepath.IsLocal(name) || !errors.Is(err, fs.ErrNotExist) {
		return "", "" // the backend refuses other paths, and tells other errors
	}
	return field + ".securityContext.seccompProfile.localhostProfile", fmt.Sprintf("%q is not in %s", name, o.Profiles)
}

// lacksSharing returns the reason why mounts in the container cannot appear on the host.
func (o *Options) lacksSharing(pod *v1.Pod, m *v1.VolumeMount) (why string) {
	if o.Mounts == nil || m.MountPropagation == nil || *m.MountPropagation != v1.MountPropagationBidirectional {
		return ""
	}
	mounts, err := o.Mounts()
	if err != nil {
		return "" // the container runtime decides
	}
	folder := o.Root
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == m.Name && v.HostPath != nil {
			folder = v.HostPath.Path
		}
	}
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		folder = real
	}
	if above := mountOf(mounts, folder); above != nil && isPrivate(above) {
		return "the mount at " + above.Target + " is not shared"
	}
	return ""
}

// mountOf returns the mount that holds a path, or nil.
func mountOf(mounts []mount.Info, path string) (holder *mount.Info) {
	for i := range mounts {
		m := &mounts[i]
		isAbove := path == m.Target || strings.HasPrefix(path, strings.TrimSuffix(m.Target, "/")+"/")
		if isAbove && (holder == nil || len(m.Target) >= len(holder.Target)) { // of two at a folder, the later hides the other
			holder = m
		}
	}
	return holder
}

// isPrivate reports whether a mount neither shares mounts nor receives mounts. A mount that
// receives mounts may be a shared one in the mount namespace of the container runtime.
func isPrivate(m *mount.Info) bool {
	return !strings.Contains(m.Propagation, "shared:") && !strings.Contains(m.Propagation, "master:")
}
