// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/keelson-dev/keelson/internal/kernelfile"
)

// minID is the length of the shortest container ID. Container runtimes use 64 digits.
const minID = 32

// Tree finds cgroups. It is used by one goroutine at a time.
type Tree struct {
	root    string
	unified bool
	paths   map[string]string // by container ID, relative to the root or to that of a controller
}

// New returns the Tree of the cgroup file systems below root, usually /sys/fs/cgroup.
func New(root string) *Tree {
	_, err := os.Stat(filepath.Join(root, "cgroup.controllers"))
	return &Tree{root: filepath.Clean(root), unified: err == nil, paths: map[string]string{}}
}

// initialNamespace is the kernel's constant for the cgroup namespace of the machine.
const initialNamespace = "cgroup:[4026531835]"

// InNamespace reports whether this process is in a cgroup namespace of its own. The root of its cgroup
// file systems is then the cgroup of a container on the machine.
func InNamespace() bool {
	namespace, err := os.Readlink("/proc/self/ns/cgroup")
	return err == nil && namespace != initialNamespace
}

// Find finds the cgroups of the containers, and forgets others. Containers without a cgroup are
// skipped. The tree is searched only if a container is new.
func (t *Tree) Find(ids []string) {
	wanted := make(map[string]bool, len(ids))
	missing := 0
	for _, id := range ids {
		wanted[id] = true
		if _, known := t.paths[id]; !known {
			missing++
		}
	}
	for id := range t.paths {
		if !wanted[id] {
			delete(t.paths, id)
		}
	}
	if missing > 0 {
		t.search(wanted)
	}
}

// search walks through the cgroups. Cgroups that containers make in their own are not entered.
func (t *Tree) search(wanted map[string]bool) {
	top := t.controller("memory")
	_ = filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // a cgroup that was removed meanwhile
		}
		id := idIn(d.Name())
		if id == "" {
			return nil
		}
		if wanted[id] {
			t.paths[id] = strings.TrimPrefix(name, top)
		}
		return fs.SkipDir
	})
}

// idIn returns the container ID in the name of a cgroup, or "".
func idIn(name string) string {
	name = strings.TrimSuffix(name, ".scope")
	id := name[strings.LastIndexByte(name, '-')+1:]
	if len(id) < minID || strings.Trim(id, "0123456789abcdef") != "" {
		return ""
	}
	return id
}

// controller returns the top folder of a controller. Paths of cgroups are appended to it as they
// are.
func (t *Tree) controller(name string) string {
	if t.unified {
		return t.root
	}
	return t.root + "/" + name
}

// Path returns the path of a container's cgroup, with a leading slash, or "" if it is not known.
func (t *Tree) Path(id string) string { return t.paths[id] }

// Process returns the ID of a process of the container, 0 without one. The process may end at any
// time, so compare the result of a second call after the use.
func (t *Tree) Process(id string) int {
	p := t.paths[id]
	if p == "" {
		return 0
	}
	var buffer [kernelfile.Size]byte
	raw, err := kernelfile.Append(buffer[:0], t.controller("memory")+p+"/cgroup.procs")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return pid
}

// Parent returns the path of the cgroup above a container's, or "".
func (t *Tree) Parent(id string) string {
	if p := t.paths[id]; p != "" {
		return path.Dir(p)
	}
	return ""
}
