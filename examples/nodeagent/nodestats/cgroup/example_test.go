// SPDX-License-Identifier: Apache-2.0

package cgroup_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats/cgroup"
)

// Example reads a cgroup from a folder. On a node the folder is /sys/fs/cgroup.
func Example() {
	root, err := os.MkdirTemp("", "cgroup")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	dir := filepath.Join(root, "cri-containerd-"+id+".scope")
	for name, text := range map[string]string{
		filepath.Join(root, "cgroup.controllers"): "cpu\n",
		filepath.Join(dir, "cpu.stat"):            "user_usec 1500000\nsystem_usec 500000\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			fmt.Println(err)
			return
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			fmt.Println(err)
			return
		}
	}

	tree := cgroup.New(root)
	tree.Find([]string{id})
	usage, _ := tree.Usage(id)
	fmt.Println(usage.User, usage.System)
	// Output: 1.5s 500ms
}
