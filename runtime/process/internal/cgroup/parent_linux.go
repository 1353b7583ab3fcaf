// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// controllers are those that a container needs. cpuacct exists in version 1 only.
var controllers = []string{"memory", "cpu", "pids", "cpuacct"}

// Parent is a cgroup in which the agent makes cgroups.
type Parent struct {
	folders []string          // of the parent, one in each hierarchy
	lacks   map[string]string // by controller: why it is missing
}

// Open returns the cgroup with a path such as "/agents/one". A missing cgroup is made if the agent
// may do so. The error tells why no controller can be had.
func Open(name string) (*Parent, error) {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer mounts.Close()
	roots, err := hierarchies(mounts)
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	return open(roots, name, ownOf(string(own)))
}

// ownOf returns the process's own cgroup of version 2, "" if it is not visible.
func ownOf(text string) string {
	for line := range strings.Lines(text) {
		if own, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok && !strings.HasPrefix(own, "/..") {
			return own
		}
	}
	return ""
}

// unified is the key of the hierarchy of version 2.
const unified = "unified"

// hierarchies returns the mount points of the hierarchies, by controller or unified.
func hierarchies(mountinfo io.Reader) (map[string]string, error) {
	roots := map[string]string{}
	for lines := bufio.NewScanner(mountinfo); ; {
		if !lines.Scan() {
			return roots, lines.Err()
		}
		place, kind, ok := strings.Cut(lines.Text(), " - ")
		at, how := strings.Fields(place), strings.Fields(kind)
		if !ok || len(at) < 5 || len(how) < 3 {
			continue
		}
		switch how[0] {
		case "cgroup2":
			roots[unified] = at[4]
		case "cgroup":
			for _, option := range strings.Split(how[2], ",") {
				if slices.Contains(controllers, option) {
					roots[option] = at[4]
				}
			}
		}
	}
}

func open(roots map[string]string, name, own string) (*Parent, error) {
	p := &Parent{lacks: map[string]string{}}
	all := rootOf(roots[unified])
	for _, c := range controllers {
		var folder string
		var err error
		switch root, isV1 := roots[c]; {
		case isV1:
			folder = filepath.Join(root, name)
			err = usable(folder)
		case roots[unified] == "":
			err = errors.New("the kernel has no such cgroups")
		default:
			folder = filepath.Join(roots[unified], name)
			if err = all.enable(name, c); err == nil {
				err = all.admits(name, own)
			}
		}
		if err != nil {
			p.lacks[c] = err.Error()
		} else if !slices.Contains(p.folders, folder) {
			p.folders = append(p.folders, folder)
		}
	}
	if _, has := roots["cpuacct"]; !has {
		delete(p.lacks, "cpuacct") // version 2 counts without a controller
	}
	if len(p.folders) == 0 {
		return nil, fmt.Errorf("cgroup %s: %s", name, p.lacks["memory"])
	}
	return p, nil
}

// usable makes a cgroup, unless it exists, and returns why no cgroup can be made in it.
func usable(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := unix.Access(folder, unix.W_OK|unix.X_OK); err != nil {
		return &fs.PathError{Op: "write", Path: folder, Err: err}
	}
	return nil
}

// rootOf is the mount point of version 2.
type rootOf string

// enable makes a cgroup of version 2 and gives its children a controller. Cgroups above have to give
// the controller to theirs.
func (r rootOf) enable(name, controller string) error {
	folder := filepath.Join(string(r), name)
	var missing []string // cgroups that the agent makes, which have to pass the controller on
	for at := folder; at != string(r); at = path.Dir(at) {
		if _, err := os.Stat(at); err == nil {
			break
		}
		missing = append(missing, path.Dir(at))
	}
	for _, above := range slices.Backward(missing) {
		if err := pass(above, controller); err != nil {
			return err
		}
	}
	if err := usable(folder); err != nil {
		return err
	}
	if controller == "cpuacct" {
		return nil
	}
	return pass(folder, controller)
}

// admits returns why children of a process in the cgroup own cannot enter cgroups below name. The kernel
// takes a process from one cgroup to another for a user who may write the file cgroup.procs of the
// cgroup above both.
func (r rootOf) admits(name, own string) error {
	if own == "" {
		return nil
	}
	procs := filepath.Join(string(r), above(name, own), "cgroup.procs")
	if err := unix.Access(procs, unix.W_OK); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the agent in %s may not move processes to %s: write %s: %w: start the agent in a cgroup below %s, with Delegate=yes and DelegateSubgroup= in a systemd unit",
			own, name, procs, err, name)
	}
	return nil
}

// above returns the lowest cgroup that is a or above a, and is b or above b.
func above(a, b string) string {
	for ; a != "/" && a != b && !strings.HasPrefix(b, a+"/"); a = path.Dir(a) {
	}
	return a
}

// pass gives the children of a cgroup of version 2 a controller.
func pass(folder, controller string) error {
	const control = "cgroup.subtree_control"
	have, err := os.ReadFile(filepath.Join(folder, control))
	if err != nil || slices.Contains(strings.Fields(string(have)), controller) {
		return err
	}
	can, err := os.ReadFile(filepath.Join(folder, "cgroup.controllers"))
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(string(can)), controller) {
		return fmt.Errorf("%s has no controller %s", folder, controller)
	}
	err = os.WriteFile(filepath.Join(folder, control), []byte("+"+controller), 0)
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%s has processes of its own: move them to a cgroup below, with DelegateSubgroup= in a systemd unit", folder)
	}
	return err
}

// Lacks returns why a controller is missing, "" if it is there.
func (p *Parent) Lacks(controller string) string { return p.lacks[controller] }
