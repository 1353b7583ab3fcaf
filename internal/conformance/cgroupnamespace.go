// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memoryOfNode limits the memory of a node in bytes: some specs use up all memory of their node.
const memoryOfNode int64 = 8 << 30

// enterCgroup moves this process into a new cgroup of each hierarchy, which will be the root of a
// cgroup namespace. leave moves the process back and removes the cgroups.
func enterCgroup() (leave func() error, err error) {
	name := "keelson-specs-" + strconv.Itoa(os.Getpid())
	home, err := cgroupsOfThis()
	if err != nil {
		return nil, err
	}
	leave = func() error {
		for _, root := range cgroupRoots(name) {
			hierarchy := filepath.Dir(root)
			if err := enter(filepath.Join(hierarchy, home[filepath.Base(hierarchy)])); err != nil {
				_ = enter(hierarchy) // the old cgroup may be outside this process's own namespace
			}
		}
		return removeCgroups(name)
	}
	if err := makeCgroups(name); err != nil {
		return nil, errors.Join(err, leave())
	}
	for _, root := range cgroupRoots(name) {
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // empty in a new cgroup of version 1
			if text, err := os.ReadFile(filepath.Join(filepath.Dir(root), file)); err == nil {
				_ = os.WriteFile(filepath.Join(root, file), text, 0) // version 2 needs none
			}
		}
		_ = os.WriteFile(filepath.Join(root, "memory.limit_in_bytes"), []byte(strconv.FormatInt(memoryOfNode, 10)), 0) // in one hierarchy
		if err := enter(root); err != nil {
			return nil, errors.Join(err, leave())
		}
	}
	return leave, nil
}

// enter moves this process into a cgroup.
func enter(cgroup string) error {
	return os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
}

// cgroupsOfThis returns the path of this process's cgroup by hierarchy.
func cgroupsOfThis() (map[string]string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.SplitN(strings.TrimSpace(line), ":", 3); len(fields) == 3 {
			for name := range strings.SplitSeq(strings.TrimPrefix(fields[1], "name="), ",") {
				all[name] = fields[2]
			}
		}
	}
	return all, err
}

// mountCgroups mounts the hierarchies again, so that their roots are the roots of this cgroup
// namespace.
func mountCgroups() error {
	for _, root := range cgroupRoots("") {
		hierarchy := filepath.Clean(root)
		kind, options := "cgroup", filepath.Base(hierarchy)
		var fs unix.Statfs_t
		if err := unix.Statfs(hierarchy, &fs); err != nil {
			return err
		}
		switch {
		case fs.Type == unix.CGROUP2_SUPER_MAGIC:
			kind, options = "cgroup2", ""
		case options == "systemd":
			options = "none,name=systemd"
		}
		err := unix.Unmount(hierarchy, unix.MNT_DETACH)
		if err == nil {
			err = unix.Mount(kind, hierarchy, kind, 0, options)
		}
		if err != nil {
			return fmt.Errorf("mount %s: %w", hierarchy, err)
		}
	}
	return nil
}
