// SPDX-License-Identifier: Apache-2.0

//go:build !nocgroups

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/cgroups"
)

func TestCgroupFlagsThatAreRefused(t *testing.T) {
	runtime := []string{"--container-runtime-endpoint", "unix:///run/none.sock"}
	for want, args := range map[string][]string{
		"--cgroup-driver is for a container runtime":           {"--cgroup-driver", "systemd", "--container-runtime-endpoint", "process"},
		"--pod-max-pids needs --cgroup-root":                   {"--pod-max-pids", "5", "--container-runtime-endpoint", "process"},
		"--pod-max-pids 0: want more than 0":                   {"--pod-max-pids", "0"},
		`--cgroup-driver "docker": want cgroupfs or systemd`:   {"--cgroup-driver", "docker"},
		`--cgroup-root "a": want an absolute path`:             {"--cgroup-root", "a"},
		"--enforce-node-allocatable cpu: want pods":            {"--enforce-node-allocatable", "cpu"},
		"--enforce-node-allocatable: none stands alone":        {"--enforce-node-allocatable", "none,pods"},
		"--enforce-node-allocatable names pods twice":          {"--enforce-node-allocatable", "pods,pods"},
		"system-reserved needs --system-reserved-cgroup":       {"--enforce-node-allocatable", "system-reserved"},
		"give kube-reserved or kube-reserved-compressible":     {"--enforce-node-allocatable", "kube-reserved,kube-reserved-compressible", "--kube-reserved-cgroup", "/a"},
		"is not supported unless --cgroups-per-qos is set":     {"--enforce-node-allocatable", "pods", "--cgroups-per-qos=false"},
		"--kube-reserved: \"gpu\": want cpu, memory":           {"--kube-reserved", "gpu=1"},
		"--system-reserved, --kube-reserved and --eviction-ha": {"--kube-reserved", "pid=999999999"},
	} {
		_, err := parseFlags(append(append([]string{t.TempDir(), "--root-dir", t.TempDir()}, runtime...), args...))
		require.ErrorContains(t, err, want)
	}
}

// Pods together have what is not reserved. Hard thresholds of evictions are below that limit.
func TestReservedResourcesAreEnforced(t *testing.T) {
	f, err := parseFlags([]string{t.TempDir(), "--root-dir", t.TempDir(), "--container-runtime-endpoint", "unix:///run/none.sock",
		"--system-reserved", "cpu=100m,memory=10Mi,pid=1000", "--kube-reserved", "memory=20Mi", "--eviction-hard", "memory.available<100Mi"})
	require.NoError(t, err)
	all, pods := cgroups.ForResources(f.offer.machine, cgroups.Settings{}, false), cgroups.ForResources(f.offer.enforced, cgroups.Settings{}, false)
	require.EqualValues(t, 30<<20, all.Memory-pods.Memory)
	require.EqualValues(t, 1000, all.PIDs-pods.PIDs)
	require.Less(t, pods.CPUShares, all.CPUShares)
	system, kube := cgroups.ForResources(f.offer.ofSystem, cgroups.Settings{}, false), cgroups.ForResources(f.offer.ofKube, cgroups.Settings{}, false)
	require.Equal(t, cgroups.Values{CPUShares: 102, Memory: 10 << 20, PIDs: 1000}, system)
	require.Equal(t, cgroups.Values{Memory: 20 << 20}, kube)
	rest := f.offer.allocatable[v1.ResourceMemory]
	require.Less(t, rest.Value(), pods.Memory)
}
