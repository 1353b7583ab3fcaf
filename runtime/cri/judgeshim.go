// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

// shimArgs are the arguments of a containerd shim serving a sandbox.
type shimArgs struct {
	namespace, id string
	address       string // path of the socket of the shim's containerd
}

// shimProgram is the shim of runc. Other shims may have virtual machines.
const shimProgram = "containerd-shim-runc-v2"

// parseShim reads a shim's arguments. The calls "start" and "delete" of the same program end by
// themselves and are not shims.
func parseShim(args []string) (s shimArgs, ok bool) {
	if len(args) == 0 || filepath.Base(args[0]) != shimProgram {
		return s, false
	}
	flags := map[string]*string{"-namespace": &s.namespace, "-id": &s.id, "-address": &s.address}
	for rest := args[1:]; len(rest) > 0; {
		to, known := flags[rest[0]]
		switch {
		case known && len(rest) > 1:
			*to, rest = rest[1], rest[2:]
		case rest[0] == "-debug":
			rest = rest[1:]
		default:
			return shimArgs{}, false
		}
	}
	return s, s.namespace != "" && s.id != "" && filepath.IsAbs(s.address)
}

// containerID matches the IDs given by containerd's CRI.
var containerID = regexp.MustCompile(`[0-9a-f]{64}`)

// containerIDIn returns the container ID in the text of a /proc/<pid>/cgroup. The first ID of a
// path counts, because a container may make cgroups of its own.
func containerIDIn(cgroup string) string { return containerID.FindString(cgroup) }

// bundleFacts describe a shim's folder.
type bundleFacts struct {
	gone bool // the folder was removed
	// pod is true if the folder is of a pod's sandbox, made through the CRI.
	pod    bool
	podUID types.UID
}

// bundleOf reads the annotations of a sandbox given by containerd's CRI.
func bundleOf(annotations map[string]string) bundleFacts {
	const prefix = "io.kubernetes.cri."
	if annotations[prefix+"container-type"] != "sandbox" {
		return bundleFacts{}
	}
	// <namespace>_<name>_<uid>
	folder := strings.SplitN(filepath.Base(annotations[prefix+"sandbox-log-directory"]), "_", 3)
	if len(folder) != 3 || folder[0] == "" || folder[1] == "" || folder[2] == "" {
		return bundleFacts{}
	}
	return bundleFacts{pod: true, podUID: types.UID(folder[2])}
}

// shimFacts describe a shim of the containerd behind the endpoint, from /proc and containerd.
type shimFacts struct {
	id       string // of the sandbox
	known    bool   // the CRI or containerd knows the sandbox
	bundle   bundleFacts
	children []childFacts
}

// childFacts describe a process whose parent is a shim.
type childFacts struct {
	pid   int
	id    string // of the container whose cgroup the process is in; "" for no container
	known bool   // the CRI or containerd knows the container
}

// judgeShim returns the leftovers among a shim and the processes below the shim.
//
// The shim is the runtime's own, because the shim's arguments name the runtime's socket. If
// containerd does not know the sandbox and the shim's folder is gone, no call can ever reach the
// shim, because containerd finds shims at its start only by their folders. An existing folder says
// whether the sandbox is a pod's. This backend touches only sandboxes of pods.
func judgeShim(pid int, f shimFacts) []runtime.Leftover {
	if f.known {
		return lostContainers(f.children)
	}
	l := runtime.Leftover{Kind: runtime.LeftoverShim, PID: pid, ID: f.id, PodUID: f.bundle.podUID}
	for _, c := range f.children {
		switch {
		case c.known:
			l.Why = "containerd does not know its sandbox, but container " + c.id + ", which is below it"
			return []runtime.Leftover{l}
		case c.id == "":
			l.Why = "containerd does not know its sandbox; process " + strconv.Itoa(c.pid) + " below it is in no container's cgroup"
			return []runtime.Leftover{l}
		}
	}
	switch {
	case f.bundle.gone:
		l.Ours, l.Why = true, "the containerd that it names does not know its sandbox, and its folder is gone"
	case f.bundle.pod:
		l.Ours, l.Why = true, "the containerd that it names does not know its sandbox, which its folder says is that of a pod"
	default:
		l.Why = "the containerd that it names does not know it; its folder does not say that it is of a pod"
	}
	return []runtime.Leftover{l}
}

// lostContainers returns the processes below a live sandbox's shim in containers unknown to
// containerd. Such processes come from starts cut short.
func lostContainers(children []childFacts) (out []runtime.Leftover) {
	for _, c := range children {
		if c.id != "" && !c.known {
			out = append(out, runtime.Leftover{Kind: runtime.LeftoverProcess, PID: c.pid, ID: c.id, Ours: true,
				Why: "it is in the cgroup of a container that containerd does not know, below a shim of the runtime"})
		}
	}
	return out
}

// listeners returns the paths of the listening unix sockets in open, from the text of
// /proc/net/unix. open holds targets of links in /proc/<pid>/fd.
func listeners(text string, open map[string]bool) (paths []string) {
	const (
		listening                   = "00010000" // the kernel's flag
		flags, inode, path, columns = 3, 6, 7, 8
	)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == columns && f[flags] == listening && open["socket:["+f[inode]+"]"] && filepath.IsAbs(f[path]) {
			paths = append(paths, f[path])
		}
	}
	return paths
}
