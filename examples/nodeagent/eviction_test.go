// SPDX-License-Identifier: Apache-2.0

//go:build linux && !nocgroups && !noeviction && !noapiserver

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
)

// thresholds returns the thresholds that flags set, in the form of the kubelet's flags.
func thresholds(t *testing.T, args ...string) (all []string) {
	t.Helper()
	f, err := parseFlags(append([]string{"--root-dir", t.TempDir()}, args...))
	require.NoError(t, err)
	for _, threshold := range f.eviction.thresholds {
		all = append(all, threshold.String())
	}
	return all
}

// A node of a cluster has the kubelet's thresholds. A lone node evicts no pod that it is not told to.
func TestDefaultThresholds(t *testing.T) {
	kubelets := []string{"imagefs.available<15%", "imagefs.inodesFree<5%", "memory.available<100Mi", "nodefs.available<10%", "nodefs.inodesFree<5%"}
	require.Empty(t, thresholds(t, t.TempDir()))
	require.Equal(t, kubelets, thresholds(t, "--kubeconfig", "k"))
	require.Empty(t, thresholds(t, "--kubeconfig", "k", "--eviction-hard="))
	require.Equal(t, []string{"memory.available<1Gi"}, thresholds(t, "--kubeconfig", "k", "--eviction-hard", "memory.available<1Gi"))
	require.Equal(t, []string{"pid.available<5%"}, thresholds(t, t.TempDir(), "--eviction-hard", "pid.available<5%"))
	require.Equal(t, []string{"memory.available<100Mi", "nodefs.available<20% for 1m0s"}, thresholds(t, t.TempDir(), "--eviction-hard", "memory.available<100Mi",
		"--eviction-soft", "nodefs.available<20%", "--eviction-soft-grace-period", "nodefs.available=1m"))
	require.Equal(t, append(kubelets, "pid.available<100"),
		thresholds(t, t.TempDir(), "--eviction-hard", "pid.available<100", "--merge-default-eviction-settings"))
}

// Where all pods together have a limit, they are evicted before they reach it.
func TestTheLimitOfAllPodsHasAThreshold(t *testing.T) {
	runtime := []string{t.TempDir(), "--container-runtime-endpoint", "unix:///run/none.sock", "--eviction-hard", "memory.available<1Gi"}
	require.Equal(t, []string{"allocatableMemory.available<1Gi", "memory.available<1Gi"}, thresholds(t, runtime...))
	require.Equal(t, []string{"memory.available<1Gi"}, thresholds(t, append(runtime, "--enforce-node-allocatable=none")...))
	require.Equal(t, []string{"memory.available<1Gi"}, thresholds(t, append(runtime, "--cgroups-per-qos=false")...))
}

func TestEvictionFlagsThatAreRefused(t *testing.T) {
	for want, args := range map[string][]string{
		`"memory.available": want signal<value`:                                               {"--eviction-hard", "memory.available"},
		`each signal once`:                                                                    {"--eviction-hard", "pid.available<1,pid.available<2"},
		`evictionHard: unsupported eviction signal memory`:                                    {"--eviction-hard", "memory<1"},
		`evictionHard: eviction threshold nodefs.available: "much" is neither a quantity`:     {"--eviction-hard", "nodefs.available<much"},
		`evictionSoft: grace period must be specified for the soft eviction threshold pid.av`: {"--eviction-soft", "pid.available<1"},
		`evictionMinimumReclaim: negative eviction minimum reclaim`:                           {"--eviction-minimum-reclaim", "pid.available=-1"},
		`--eviction-pressure-transition-period -1s`:                                           {"--eviction-pressure-transition-period", "-1s"},
		`--eviction-hard keep`:                                                                {"--eviction-hard", "memory.available<9999Ti"},
	} {
		_, err := parseFlags(append([]string{t.TempDir(), "--root-dir", t.TempDir()}, args...))
		require.ErrorContains(t, err, want)
	}
}

// Hard thresholds are kept from what pods may request, and soft ones are not.
func TestHardThresholdsAreNotAllocatable(t *testing.T) {
	f, err := parseFlags([]string{t.TempDir(), "--root-dir", t.TempDir(), "--system-reserved", "memory=1Mi", "--eviction-hard", "memory.available<2Mi,nodefs.available<10%",
		"--eviction-soft", "memory.available<50Mi", "--eviction-soft-grace-period", "memory.available=1m"})
	require.NoError(t, err)
	o := f.offer
	require.EqualValues(t, 3<<20, o.capacity.Memory().Value()-o.allocatable.Memory().Value())
	all := o.capacity.StorageEphemeral().Value()
	withheld := pressure.Withheld(o.capacity, f.eviction.thresholds)
	require.EqualValues(t, all-withheld.StorageEphemeral().Value(), o.allocatable.StorageEphemeral().Value())
	require.InDelta(t, all/10, withheld.StorageEphemeral().Value(), 1<<20)
}

// The kubelet's configuration has the effect of the flags, and its defaults hold without a kubeconfig, too.
func TestEvictionFieldsOfTheConfiguration(t *testing.T) {
	f, err := configured(t, `
evictionHard: {memory.available: 5%}
evictionSoft: {nodefs.available: 20%}
evictionSoftGracePeriod: {nodefs.available: 1m30s}
evictionMinimumReclaim: {nodefs.available: 1Gi}
evictionPressureTransitionPeriod: 30s
evictionMaxPodGracePeriod: -1
enforceNodeAllocatable: [none]
`)
	require.NoError(t, err)
	require.Equal(t, []pressure.Threshold{
		{Signal: pressure.MemoryAvailable, Below: pressure.Amount{Share: 0.05}},
		{Signal: pressure.NodeFSAvailable, Below: pressure.Amount{Share: 0.2}, Reclaim: pressure.Amount{Value: 1 << 30}, Grace: 90 * time.Second},
	}, f.eviction.thresholds)
	require.Equal(t, 30*time.Second, f.eviction.hold)
	require.Equal(t, -1, f.eviction.maxGrace)
	f, err = configured(t, "maxPods: 5\nevictionPressureTransitionPeriod: 0s\n", "--eviction-max-pod-grace-period", "7")
	require.NoError(t, err)
	require.Len(t, f.eviction.thresholds, len(pressure.DefaultHard())+1, "and that of all pods")
	require.Equal(t, pressure.DefaultHold, f.eviction.hold)
	require.Equal(t, 7, f.eviction.maxGrace)
	f, err = configured(t, "evictionHard: {}\n")
	require.NoError(t, err)
	require.Empty(t, f.eviction.thresholds)
	_, err = configured(t, "evictionHard: {nodefs: 5%}\n")
	require.ErrorContains(t, err, "evictionHard: unsupported eviction signal nodefs")
}

func TestPressureOfTheNodeObject(t *testing.T) {
	f, err := parseFlags([]string{t.TempDir(), "--root-dir", t.TempDir()})
	require.NoError(t, err)
	usage, err := newCollector(f, nil, func() []*v1.Pod { return nil }, nil)
	require.NoError(t, err)
	e, err := newEvictor(t.Context(), f, usage, newMetrics("n"), zap.NewNop())
	require.NoError(t, err)
	require.Equal(t, map[v1.NodeConditionType]bool{v1.NodeMemoryPressure: false, v1.NodeDiskPressure: false, v1.NodePIDPressure: false}, e.pressure())
}
