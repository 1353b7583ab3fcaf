// SPDX-License-Identifier: Apache-2.0

package main

import (
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
)

func TestWhatTheNodeOffers(t *testing.T) {
	f, err := parseFlags([]string{t.TempDir(), "--root-dir", t.TempDir() + "/yet/to/be/made",
		"--node-labels", "a=b,c/d=e", "--register-with-taints", "x=y:NoExecute,z:NoSchedule", "--max-pods", "7",
		"--system-reserved", "cpu=100m,memory=1Mi", "--kube-reserved", "cpu=200m", "--allowed-unsafe-sysctls", "net.*"})
	require.NoError(t, err)
	var opts node.Options
	f.offer.apply(&opts)
	require.Equal(t, map[string]string{"a": "b", "c/d": "e"}, opts.NodeLabels)
	require.Equal(t, []v1.Taint{{Key: "x", Value: "y", Effect: v1.TaintEffectNoExecute}, {Key: "z", Effect: v1.TaintEffectNoSchedule}}, opts.NodeTaints)
	require.Equal(t, []string{"net.*"}, opts.UnsafeSysctls)
	require.EqualValues(t, 7, opts.Allocatable.Pods().Value())
	require.EqualValues(t, 1000*goruntime.NumCPU()-300, opts.Allocatable.Cpu().MilliValue())
	if goruntime.GOOS == "linux" {
		require.EqualValues(t, 1<<20, f.offer.capacity.Memory().Value()-opts.Allocatable.Memory().Value())
		require.Positive(t, opts.Allocatable.StorageEphemeral().Value())
	}
}

// Without flags the number of pods is unlimited, except with an API server, because the scheduler
// needs a limit.
func TestHowManyPodsANodeOffers(t *testing.T) {
	cores := int64(goruntime.NumCPU())
	for want, args := range map[int64][]string{
		0: {t.TempDir()}, defaultMaxPods: {"--kubeconfig", "k"},
		3 * cores: {t.TempDir(), "--pods-per-core", "3"}, cores: {"--kubeconfig", "k", "--pods-per-core", "1"},
		5: {"--kubeconfig", "k", "--pods-per-core", "1000", "--max-pods", "5"},
	} {
		f, err := parseFlags(append(args, "--root-dir", t.TempDir()))
		require.NoError(t, err)
		require.Equal(t, want, f.offer.allocatable.Pods().Value())
		_, limited := f.offer.allocatable[v1.ResourcePods]
		require.Equal(t, want > 0, limited)
	}
}

// The memory of huge pages is none that pods can use otherwise.
func TestHugePagesAreOffered(t *testing.T) {
	have := capacity(2, 1<<30, 0, 0)
	reserved := v1.ResourceList{v1.ResourceMemory: resource.MustParse("100Mi")}
	addHugePages(have, v1.ResourceList{"hugepages-2Mi": resource.MustParse("64Mi"), "hugepages-1Gi": resource.MustParse("0")}, reserved)
	left, err := without(have, reserved)
	require.NoError(t, err)
	require.EqualValues(t, 1<<30, have.Memory().Value())
	require.EqualValues(t, 1<<30-164<<20, left.Memory().Value())
	for _, list := range []v1.ResourceList{have, left} {
		require.EqualValues(t, 64<<20, list.Name("hugepages-2Mi", resource.BinarySI).Value())
		require.Contains(t, list, v1.ResourceName("hugepages-1Gi"))
	}
}
