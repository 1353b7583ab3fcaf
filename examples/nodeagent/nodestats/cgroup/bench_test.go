// SPDX-License-Identifier: Apache-2.0

package cgroup_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats/cgroup"
)

// BenchmarkUsage reads the cgroups of 100 containers from the kernel, as a scrape of /metrics/cadvisor does.
func BenchmarkUsage(b *testing.B) {
	const top, containers = "/sys/fs/cgroup", 100
	hierarchies := []string{top}
	if _, err := os.Stat(filepath.Join(top, "cgroup.controllers")); err != nil {
		hierarchies = nil
		for _, controller := range []string{"cpu", "cpuacct", "memory", "pids", "blkio"} {
			real, err := filepath.EvalSymlinks(filepath.Join(top, controller))
			if err != nil {
				b.Skipf("no cgroups of %s: %v", controller, err)
			}
			hierarchies = append(hierarchies, real)
		}
	}
	tree := cgroup.New(top)
	var ids []string
	for i := range containers {
		ids = append(ids, fmt.Sprintf("%064x", i))
		for _, hierarchy := range hierarchies {
			parent := filepath.Join(hierarchy, fmt.Sprint("keelson-bench-", os.Getpid()))
			dir := filepath.Join(parent, ids[i])
			if err := os.MkdirAll(dir, 0o755); err != nil {
				b.Skipf("cgroups cannot be made: %v", err)
			}
			b.Cleanup(func() {
				_ = os.Remove(dir) // hierarchies may be the same
				_ = os.Remove(parent)
			})
		}
	}
	tree.Find(ids)
	b.ReportAllocs()
	for b.Loop() {
		for _, id := range ids {
			if _, ok := tree.Usage(id); !ok {
				b.Fatal("there is no cgroup of ", id)
			}
		}
	}
}
