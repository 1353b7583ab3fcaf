// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"maps"
	"os"
	"path"
	goruntime "runtime"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process/internal/walls"
)

// CheckPod refuses a pod with fields that a process of this user cannot honour on this kernel. The error is a
// *runtime.UnsupportedError that lists all such fields. With Options.Lenient, CheckPod refuses
// only containers without a command, because there is no image that could supply a command.
func (r *Runtime) CheckPod(pod *v1.Pod) error {
	c := r.newCheck()
	if r.lenient {
		c.commands(pod)
	} else {
		c.pod(pod)
	}
	if len(c.fields) > 0 {
		return &runtime.UnsupportedError{Runtime: name, Fields: c.fields}
	}
	return nil
}

// Reasons for the refusal of a field.
const (
	whyCommand  = "required: there is no image whose command could be run"
	whyIsolated = "processes are not isolated"
	whyRights   = "processes have the agent's rights"
	whyHost     = "processes see the host's files"
	whyNetwork  = "processes use the host's network"
	whyCgroup   = "there is no cgroup to limit"
	whyLimit    = "only cpu and memory are limited"
	whyLink     = "mounts are links"
	whyMounts   = "only HostToContainer, with namespaces"
	whyReadOnly = "only with readOnlyRootFilesystem: true, mounts are links"
	whyNoImages = "this backend has no images"
	whyStdin    = "there is no standard input"
)

// check collects the fields that cannot be honoured. All methods are pure.
type check struct {
	uid, gid int64
	goos     string
	host     walls.Host
	confine  bool
	isolated bool   // containers have namespaces of their own
	mapped   bool   // the pod's fsGroup is the agent's group inside of its containers
	images   bool   // containers have images
	networks bool   // pods without hostNetwork have a network namespace
	network  bool   // this pod has
	profiles string // Options.SeccompRoot
	// lacks returns why a controller of cgroups is missing, "" if it is there.
	lacks   func(controller string) string
	volumes []v1.Volume // of the pod
	context *v1.PodSecurityContext
	fields  []string
}

// newCheck returns a check for the user of this process.
func (r *Runtime) newCheck() *check {
	return &check{
		uid: int64(os.Getuid()), gid: int64(os.Getgid()), goos: goruntime.GOOS,
		host: r.host, confine: r.confine, isolated: r.confine && r.host.Namespaces, images: r.images != nil, networks: r.pasta != "", profiles: r.seccompRoot,
		lacks: r.lacks,
	}
}

// refuse adds a field to the list if asked is true.
func (c *check) refuse(asked bool, field, why string) {
	if asked {
		c.fields = append(c.fields, field+" ("+why+")")
	}
}

// pod lists every field of a pod that cannot be honoured, in the pod's order.
func (c *check) pod(pod *v1.Pod) []string {
	spec := &pod.Spec
	c.volumes, c.context, c.mapped = spec.Volumes, spec.SecurityContext, c.mapsGroup(pod)
	c.network = c.networks && !spec.HostNetwork
	c.annotations(pod.Annotations)
	eachContainer(pod, c.container)
	if spec.SecurityContext != nil {
		c.podSecurity("spec.securityContext", spec.SecurityContext)
	}
	c.refuse(spec.DNSPolicy == v1.DNSNone, "spec.dnsPolicy", whyNetwork)
	c.refuse(spec.Subdomain != "", "spec.subdomain", whyNetwork)
	c.refuse(len(spec.HostAliases) > 0, "spec.hostAliases", whyNetwork)
	c.refuse(spec.DNSConfig != nil, "spec.dnsConfig", whyNetwork)
	c.refuse(spec.RuntimeClassName != nil, "spec.runtimeClassName", "there is only one way to run")
	c.refuse(len(spec.Overhead) > 0, "spec.overhead", whyCgroup)
	c.refuse(isTrue(spec.SetHostnameAsFQDN), "spec.setHostnameAsFQDN", whyNetwork)
	c.refuse(spec.OS != nil && string(spec.OS.Name) != c.goos, "spec.os", "this is "+c.goos)
	c.refuse(spec.HostUsers != nil && !*spec.HostUsers && !(c.isolated && c.host.OwnUser()), "spec.hostUsers", whyIsolated)
	c.refuse(isTrue(spec.ShareProcessNamespace) && c.isolated && !spec.HostPID, "spec.shareProcessNamespace",
		"each container has processes of its own")
	c.refuse(len(spec.ResourceClaims) > 0, "spec.resourceClaims", "devices are not handed out")
	if spec.Resources != nil {
		c.resources("spec.resources", spec.Resources)
	}
	return c.fields
}

// commands lists only the containers without a command, which even a lenient backend cannot run.
func (c *check) commands(pod *v1.Pod) {
	eachContainer(pod, func(at string, ct *v1.Container) {
		c.refuse(len(ct.Command) == 0 && !c.images, at+".command", whyCommand)
	})
}

// eachContainer visits every container of the pod, with its field path.
func eachContainer(pod *v1.Pod, visit func(at string, c *v1.Container)) {
	for _, g := range []runtime.Group{runtime.GroupInit, runtime.GroupRegular, runtime.GroupEphemeral} {
		for i := 0; ; i++ {
			c := runtime.Ref{Group: g, Index: i}.Container(pod)
			if c == nil {
				break
			}
			visit(fmt.Sprintf("spec.%s[%d]", g, i), c)
		}
	}
}

func (c *check) container(at string, ct *v1.Container) {
	c.refuse(len(ct.Command) == 0 && !c.images, at+".command", whyCommand)
	for i := range ct.Ports {
		p := &ct.Ports[i]
		field := fmt.Sprintf("%s.ports[%d]", at, i)
		c.refuse(p.HostPort != 0 && p.HostPort != p.ContainerPort && !c.network, field+".hostPort", whyNetwork)
		c.refuse(p.HostIP != "" && p.HostIP != "0.0.0.0" && p.HostIP != "::" && !c.network, field+".hostIP", whyNetwork)
		c.refuse(p.HostPort != 0 && p.Protocol == v1.ProtocolSCTP && c.network, field+".protocol", "pasta forwards TCP and UDP")
	}
	c.resources(at+".resources", &ct.Resources)
	ask := walls.AskOf(c.context, ct.SecurityContext, c.confine)
	for i := range ct.VolumeMounts {
		c.volumeMount(fmt.Sprintf("%s.volumeMounts[%d]", at, i), ct.VolumeMounts, i, ask)
	}
	c.refuse(len(ct.VolumeDevices) > 0, at+".volumeDevices", whyHost)
	if ct.Lifecycle != nil && ct.Lifecycle.StopSignal != nil {
		_, ok := signalNumber(*ct.Lifecycle.StopSignal)
		c.refuse(!ok, at+".lifecycle.stopSignal", "no such signal here")
	}
	hidden := ct.TerminationMessagePath != "" && messagePath(ct, func(p string) bool {
		return slices.ContainsFunc(ct.VolumeMounts, func(m v1.VolumeMount) bool {
			return within(p, path.Clean("/"+m.MountPath))
		})
	}) == ""
	c.refuse(hidden, at+".terminationMessagePath", "in a mount it is not read")
	c.nonRoot(at, ct)
	if ct.SecurityContext != nil {
		ask.Add = c.needed(ask.Add, ct.Ports)
		c.security(at+".securityContext", ct.SecurityContext, ask)
	}
	c.refuse(ct.Stdin, at+".stdin", whyStdin)
	c.refuse(ct.TTY, at+".tty", whyStdin)
}

// volumeMount checks one mount.
func (c *check) volumeMount(field string, all []v1.VolumeMount, i int, ask walls.Ask) {
	m := &all[i]
	at := path.Clean("/" + m.MountPath)
	c.refuse(m.ReadOnly && !c.generated(m.Name) && !ask.GuardsFiles(), field+".readOnly", whyReadOnly)
	c.refuse(m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == v1.RecursiveReadOnlyEnabled && !c.isolated, field+".recursiveReadOnly", whyLink)
	c.refuse(at == "/", field+".mountPath", "there is no root to replace")
	for j := range all {
		other := path.Clean("/" + all[j].MountPath)
		overlap := at == other && j < i || at != other && within(at, other) && !c.isolated
		if j != i && other != "/" && overlap {
			c.refuse(true, field+".mountPath", "inside another mount")
			break
		}
	}
	c.refuse(m.MountPropagation != nil && *m.MountPropagation != v1.MountPropagationNone && !(c.isolated && follows(m)), field+".mountPropagation", whyMounts)
	c.refuse(len(m.BindMountOptions) > 0, field+".bindMountOptions", whyLink)
}

// follows reports whether later mounts of the host appear in the container.
func follows(m *v1.VolumeMount) bool {
	return m.MountPropagation != nil && *m.MountPropagation == v1.MountPropagationHostToContainer
}

// generated reports whether the agent makes the volume's content for this pod only. A read-only
// mount of such a volume is accepted, because a write harms no other pod, and service account
// tokens are always mounted read-only.
func (c *check) generated(volume string) bool {
	i := slices.IndexFunc(c.volumes, func(v v1.Volume) bool { return v.Name == volume })
	if i < 0 {
		return false
	}
	v := &c.volumes[i]
	return v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil
}

// resources checks limits; requests are for the scheduler.
func (c *check) resources(field string, r *v1.ResourceRequirements) {
	for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
		why := whyLimit
		if name == v1.ResourceCPU || name == v1.ResourceMemory {
			why = c.lacks(string(name))
		}
		c.refuse(why != "", field+".limits."+string(name), why)
	}
	c.refuse(len(r.Claims) > 0, field+".claims", "devices are not handed out")
}

func isTrue(b *bool) bool { return b != nil && *b }
