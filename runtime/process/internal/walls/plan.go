// SPDX-License-Identifier: Apache-2.0

package walls

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/internal/sorted"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// Paths are the host's paths of a container.
type Paths struct {
	Work    string // the working folder
	Message string // the file of the termination message; may be empty
	Volumes []Volume
	Devices []string // of the host, at their own paths
	Over    string   // the folder for mount points in folders of the system

	Hostname         string
	HostPID, HostIPC bool
	UID, GID         int // of the agent
	Groups           []uint32
	Image            *Image // nil: the folders of the system
}

// Volume is a volume of a container.
type Volume struct {
	HostPath      string
	ContainerPath string // absolute and clean
	ReadOnly      bool
	File          bool
	Follow        bool // later mounts of the host appear in the container
	Passing       bool // the files end with the pod
}

// Image is the root file system of a container.
type Image struct {
	Lower, Upper, Scratch, Dir string
	UID, GID                   uint32
	Owners                     []record.Owner
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
	if h.Isolates(a) {
		w.Root, w.Scoped = h.root(a, p), true
		if h.OwnUser() {
			kept := h.kept(a)
			w.Capabilities = &kept
		}
		return w
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

// systemInRoot are the folders of the system in a container without an image. /proc, /sys and /dev
// are the container's own.
var systemInRoot = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/run/systemd/resolve",
}

// sharedInRoot are the files of the system in a container of an image: names and addresses.
var sharedInRoot = []string{"/etc/hosts", "/etc/resolv.conf"}

// root returns the root file system of a container.
func (h Host) root(a Ask, p Paths) *record.Root {
	r := &record.Root{
		Dir: p.Work, ReadOnly: a.ReadOnlyRoot, Hostname: p.Hostname, HostPID: p.HostPID, HostIPC: p.HostIPC,
		OwnUser: h.OwnUser(), UID: uint32(p.UID), GID: uint32(p.GID), Groups: p.Groups,
	}
	if i := p.Image; i != nil {
		r.Dir, r.Lower, r.Upper, r.Scratch, r.UID, r.GID, r.Owners = i.Dir, i.Lower, i.Upper, i.Scratch, i.UID, i.GID, i.Owners
	}
	if a.User != nil {
		r.UID = uint32(*a.User)
	}
	if a.Group != nil {
		r.GID = uint32(*a.Group)
	}
	if p.Image == nil {
		for _, path := range h.System {
			r.Mounts = append(r.Mounts, systemFolder(path, p))
		}
	} else {
		for _, path := range h.Shared {
			r.Mounts = append(r.Mounts, record.Bind{From: path, To: path, File: true, ReadOnly: true})
		}
	}
	for _, path := range p.Devices {
		r.Mounts = append(r.Mounts, record.Bind{From: path, To: path, File: true, Device: true})
	}
	if p.Message != "" {
		rel, _ := filepath.Rel(p.Work, p.Message)
		r.Mounts = append(r.Mounts, record.Bind{From: p.Message, To: "/" + rel, File: true})
	}
	for _, v := range sorted.Collect(slices.Values(p.Volumes), func(a, b Volume) int {
		return strings.Compare(a.ContainerPath, b.ContainerPath) // the outer one first
	}) {
		r.Mounts = append(r.Mounts, record.Bind{From: v.HostPath, To: v.ContainerPath, ReadOnly: v.ReadOnly, File: v.File, Follow: v.Follow, Passing: v.Passing})
	}
	return r
}

// systemFolder returns the mount of a folder of the system. A folder that cannot be written has no
// place to mount a volume; a folder with the mount points of the volumes is laid over it.
func systemFolder(path string, p Paths) record.Bind {
	b := record.Bind{From: path, To: path, ReadOnly: true}
	for _, v := range p.Volumes {
		if strings.HasPrefix(v.ContainerPath, path+"/") {
			b.Over = filepath.Join(p.Over, strings.ReplaceAll(path[1:], "/", "-"))
		}
	}
	return b
}

// kept returns the capabilities that a container keeps.
func (h Host) kept(a Ask) uint64 {
	kept := h.Caps
	if h.Isolates(a) && h.OwnUser() {
		kept = usual // within the user namespace; a user other than root has none of them
	} else if !h.Root && (a.Confined || a.NoNewPrivs) {
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
