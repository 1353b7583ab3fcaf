// SPDX-License-Identifier: Apache-2.0

package walls

import (
	"fmt"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// The least Landlock ABIs. Before ABI 3 a file can be truncated through a read-only root file
// system. Before ABI 6 neither signals nor abstract sockets can be withheld.
const (
	LeastForFiles = 3
	LeastForScope = 6
)

// Host is what this process and this kernel can do.
type Host struct {
	Linux    bool
	Root     bool
	Caps     uint64 // permitted capabilities of this process, a bit for each number
	Landlock int    // ABI; 0 without Landlock
	Seccomp  bool   // this build and the kernel have filters, and the numbers of this architecture are known

	FreePorts int // the least port on which every user may listen

	// Namespaces reports whether a container can have a mount, PID, IPC and UTS namespace, found by
	// WithNamespaces.
	Namespaces bool
	System     []string // the folders of the system that exist; with Namespaces
	Shared     []string // the files of the system that exist, for containers of images
}

// WithNamespaces asks the kernel for namespaces. why is the reason why there are none.
func (h Host) WithNamespaces() (with Host, why error) {
	why = h.namespaces()
	h.Namespaces = why == nil
	h.System, h.Shared = existing(systemInRoot), existing(sharedInRoot)
	return h, why
}

func existing(paths []string) (out []string) {
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			out = append(out, path)
		}
	}
	return out
}

// OwnUser reports whether namespaces need a user namespace of their own. Exactly one user and one
// group are mapped, to those of this process.
func (h Host) OwnUser() bool { return !h.Root || !h.Has(capSysAdmin) }

// Has reports whether the process has a capability.
func (h Host) Has(number int) bool { return h.Caps&(1<<number) != 0 }

// Ask is what a container asks for.
type Ask struct {
	NoNewPrivs   bool
	MayGain      bool // allowPrivilegeEscalation: true is set
	Add, Drop    []string
	ReadOnlyRoot bool
	Seccomp      *v1.SeccompProfile // nil: unconfined
	Confined     bool               // all walls, whether or not the pod asks
	User, Group  *int64             // nil: the agent's, or the image's
	NonRoot      bool
}

// AskOf returns the Ask of a container. Each field of the container's security context overrides the
// field of the pod's security context.
func AskOf(pod *v1.PodSecurityContext, c *v1.SecurityContext, confined bool) Ask {
	a := Ask{Confined: confined}
	if pod != nil {
		a.Seccomp = pod.SeccompProfile
		a.User, a.Group = pod.RunAsUser, pod.RunAsGroup
		a.NonRoot = pod.RunAsNonRoot != nil && *pod.RunAsNonRoot
	}
	if c != nil {
		if c.AllowPrivilegeEscalation != nil {
			a.NoNewPrivs, a.MayGain = !*c.AllowPrivilegeEscalation, *c.AllowPrivilegeEscalation
		}
		if c.Capabilities != nil {
			for _, name := range c.Capabilities.Add {
				a.Add = append(a.Add, string(name))
			}
			for _, name := range c.Capabilities.Drop {
				a.Drop = append(a.Drop, string(name))
			}
		}
		a.ReadOnlyRoot = c.ReadOnlyRootFilesystem != nil && *c.ReadOnlyRootFilesystem
		if c.SeccompProfile != nil {
			a.Seccomp = c.SeccompProfile
		}
		if c.RunAsUser != nil {
			a.User = c.RunAsUser
		}
		if c.RunAsNonRoot != nil {
			a.NonRoot = *c.RunAsNonRoot
		}
		if c.RunAsGroup != nil {
			a.Group = c.RunAsGroup
		}
	}
	if a.Seccomp == nil && confined {
		a.Seccomp = &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}
	}
	return a
}

// GuardsFiles reports whether the files of the host are guarded, so that a volume can be read-only.
func (a Ask) GuardsFiles() bool { return a.ReadOnlyRoot || a.Confined }

// Isolates reports whether a container has namespaces.
func (h Host) Isolates(a Ask) bool { return a.Confined && h.Namespaces }

// filtered reports whether a system call filter is asked for.
func (a Ask) filtered() bool {
	return a.Seccomp != nil && a.Seccomp.Type != v1.SeccompProfileTypeUnconfined
}

// sealed reports whether the process may gain no privileges. The kernel lets a process without
// CAP_SYS_ADMIN set up Landlock and filters only with no_new_privs. A set-user-ID program would
// regain capabilities that were dropped.
func (a Ask) sealed() bool {
	return a.NoNewPrivs || a.filtered() || a.ReadOnlyRoot || a.Confined || len(a.Drop) > 0
}

// Unmet is a field that cannot be honoured here.
type Unmet struct{ Field, Why string }

// Unmet returns the fields of a container's security context that cannot be honoured here. Fields
// are named below the security context.
func (h Host) Unmet(a Ask) (out []Unmet) {
	refuse := func(asked bool, field, why string) {
		if asked {
			out = append(out, Unmet{field, why})
		}
	}
	for _, name := range a.Add {
		if number, ok := capability(name); !ok && name != allCapabilities {
			refuse(true, "capabilities.add", fmt.Sprintf("%q is no capability", name))
		} else {
			refuse(ok && !h.Has(number) || !ok && !h.Root, "capabilities.add", "the agent does not have "+name)
			refuse(ok && h.Has(number) && h.Isolates(a) && h.OwnUser(), "capabilities.add", "capabilities end at the user namespace")
		}
	}
	for _, name := range a.Drop {
		_, ok := capability(name)
		refuse(!ok && name != allCapabilities, "capabilities.drop", fmt.Sprintf("%q is no capability", name))
	}
	refuse(len(a.Drop) > 0 && h.Root && !h.Has(capSetpcap), "capabilities.drop", "the agent is root without CAP_SETPCAP")
	refuse(len(a.Drop) > 0 && h.Root && !h.Linux, "capabilities.drop", "only Linux has capabilities")
	refuse(a.ReadOnlyRoot && h.Landlock < LeastForFiles, "readOnlyRootFilesystem",
		fmt.Sprintf("needs Landlock ABI %d of Linux 6.2, this kernel has ABI %d", LeastForFiles, h.Landlock))
	refuse(a.NoNewPrivs && !h.Linux, "allowPrivilegeEscalation", "only Linux has no_new_privs")
	refuse(a.MayGain && !h.Root && a.sealed(), "allowPrivilegeEscalation",
		"true is not possible together with a seccomp profile, a read-only root file system or dropped capabilities")
	return out
}

// UnmetProfile returns the reason why a seccomp profile cannot be honoured here. The content of a
// Localhost profile is not read.
func (h Host) UnmetProfile(p *v1.SeccompProfile, root string) (why string) {
	if p == nil || p.Type == v1.SeccompProfileTypeUnconfined {
		return ""
	}
	types := []v1.SeccompProfileType{v1.SeccompProfileTypeRuntimeDefault, v1.SeccompProfileTypeLocalhost}
	switch {
	case !slices.Contains(types, p.Type):
		return fmt.Sprintf("%q is no type of profile", p.Type)
	case !h.Seccomp:
		return "this kernel, architecture or build has no system call filters"
	case p.Type == v1.SeccompProfileTypeRuntimeDefault:
		return ""
	case root == "":
		return "the agent has no folder of profiles"
	case p.LocalhostProfile == nil || !local(*p.LocalhostProfile):
		return "localhostProfile is no path below the agent's folder of profiles"
	}
	return ""
}

// Leniently returns the Ask without the parts that cannot be granted here.
func (h Host) Leniently(a Ask, root string) Ask {
	for _, u := range h.Unmet(a) {
		switch u.Field {
		case "capabilities.add":
			a.Add = nil
		case "capabilities.drop":
			a.Drop = nil
		case "readOnlyRootFilesystem":
			a.ReadOnlyRoot = false
		case "allowPrivilegeEscalation":
			a.NoNewPrivs, a.MayGain = a.NoNewPrivs && h.Linux, false
		}
	}
	if h.UnmetProfile(a.Seccomp, root) != "" {
		a.Seccomp = nil
	}
	return a
}

// UnmetConfined returns the reason why this host cannot confine every container.
func (h Host) UnmetConfined() (why string) {
	switch {
	case !h.Seccomp:
		return "this kernel, architecture or build has no system call filters"
	case h.Landlock < LeastForScope:
		return fmt.Sprintf("needs Landlock ABI %d of Linux 6.12, this kernel has ABI %d", LeastForScope, h.Landlock)
	case h.Root && !h.Has(capSetpcap):
		return "the agent is root without CAP_SETPCAP"
	}
	return ""
}
