// SPDX-License-Identifier: Apache-2.0

package walls

import (
	"path/filepath"
	"slices"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// Paths are the host's paths of a container.
type Paths struct {
	Work    string // the working folder
	Message string // the file of the termination message; may be empty
	Volumes []Volume
}

// Volume is a volume of a container.
type Volume struct {
	HostPath string
	ReadOnly bool
}

// devices are the files below /dev that every container may read and write.
var devices = []string{
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts",
}

// system are the folders that a confined container may read, and execute programs from.
var system = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/proc", "/sys",
	"/run/systemd/resolve", // the target of many an /etc/resolv.conf
}

// Plan returns the walls for an Ask that Host.Unmet accepts. The filter of system calls is added by
// the caller, because a profile may be a file. Pure.
func (h Host) Plan(a Ask, p Paths) record.Walls {
	w := record.Walls{NoNewPrivs: a.sealed() && h.Linux}
	if kept := h.kept(a); kept != h.Caps {
		w.Capabilities = &kept
	} else if len(a.Add) > 0 && !h.Root {
		w.Capabilities = &kept // inherited by programs only as ambient capabilities
	}
	if !a.ReadOnlyRoot && !a.Confined {
		return w
	}
	f := &record.Files{Write: slices.Clone(devices)}
	if a.Confined {
		f.Read = slices.Concat(system, []string{p.Work})
		w.Scoped = true
	}
	if p.Message != "" {
		f.Write = append(f.Write, p.Message)
	}
	if !a.ReadOnlyRoot {
		f.Write = append(f.Write, p.Work)
	}
	for _, v := range p.Volumes {
		if a.Confined {
			f.Read = append(f.Read, v.HostPath)
		}
		if !v.ReadOnly {
			f.Write = append(f.Write, v.HostPath)
		}
	}
	w.Files = f
	return w
}

// kept returns the capabilities that a container keeps.
func (h Host) kept(a Ask) uint64 {
	kept := h.Caps
	if !h.Root && (a.Confined || a.NoNewPrivs) {
		kept = 0 // ambient capabilities of the agent's unit are not for its containers
	}
	if h.Root && a.Confined {
		kept &= usual
	}
	for _, name := range a.Drop {
		if name == allCapabilities {
			kept = 0
		} else if number, ok := capability(name); ok {
			kept &^= 1 << number
		}
	}
	for _, name := range a.Add {
		if name == allCapabilities {
			kept = h.Caps
		} else if number, ok := capability(name); ok {
			kept |= 1 << number & h.Caps
		}
	}
	return kept
}

// Capabilities returns the names of the capabilities that a container keeps, as a seccomp profile
// names them.
func (h Host) Capabilities(a Ask) (names []string) {
	kept := h.kept(a)
	for number, name := range capabilities {
		if kept&(1<<number) != 0 {
			names = append(names, "CAP_"+name)
		}
	}
	return names
}

// local reports whether a path stays below its folder.
func local(path string) bool { return path != "" && filepath.IsLocal(path) }
