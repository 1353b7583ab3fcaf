// SPDX-License-Identifier: Apache-2.0

package openb_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/simulation/sim/openb"
)

// published is the GPU allocation at 100 % demand, the least and the most of ten seeds, in the order
// of openb.Policies.
var published = []struct {
	trace  string
	ranges [6][2]float64
}{
	{"cpu250", [6][2]float64{{79.5, 80.6}, {82.7, 84.0}, {87.1, 88.7}, {87.2, 89.0}, {90.8, 91.5}, {92.8, 93.8}}},
	{"default", [6][2]float64{{85.9, 86.8}, {90.3, 91.0}, {90.6, 92.8}, {91.1, 92.6}, {92.6, 93.0}, {95.1, 95.4}}},
	{"gpushare40", [6][2]float64{{84.3, 85.2}, {89.1, 89.5}, {88.4, 90.6}, {88.7, 90.5}, {91.0, 91.7}, {93.8, 94.1}}},
	{"gpuspec33", [6][2]float64{{83.5, 84.3}, {79.4, 80.3}, {80.8, 81.5}, {81.5, 82.6}, {80.0, 80.8}, {87.5, 88.1}}},
	{"multigpu50", [6][2]float64{{80.0, 82.6}, {94.4, 95.1}, {95.3, 96.1}, {95.5, 96.4}, {95.4, 95.9}, {96.9, 97.3}}},
}

// TestPublishedTable repeats the experiment of the paper on the real traces.
func TestPublishedTable(t *testing.T) {
	dir := os.Getenv("OPENB")
	if dir == "" {
		t.Skip("OPENB is not set: name the folder with openb_node_list_gpu_node.csv and openb_pod_list_*.csv")
	}
	file, err := os.Open(filepath.Join(dir, "openb_node_list_gpu_node.csv"))
	require.NoError(t, err)
	defer file.Close()
	cluster, err := openb.ReadNodes(file, file.Name())
	require.NoError(t, err)
	for _, row := range published {
		list, err := os.Open(filepath.Join(dir, "openb_pod_list_"+row.trace+".csv"))
		require.NoError(t, err)
		pods, err := openb.ReadPods(list, list.Name())
		require.NoError(t, err)
		require.NoError(t, list.Close())
		for i, policy := range openb.Policies() {
			var at []float64
			for seed := int64(42); seed <= 51; seed++ {
				curve, err := openb.Experiment{Cluster: cluster, Pods: pods, Policy: policy, Seed: seed}.Run(t.Context())
				require.NoError(t, err)
				at = append(at, curve.At100)
			}
			slices.Sort(at)
			median := (at[4] + at[5]) / 2
			want := row.ranges[i]
			fmt.Printf("%-10s %-13s %5.1f–%.1f, median %.2f; published %.1f–%.1f\n", row.trace, policy, at[0], at[9], median, want[0], want[1])
			assert.True(t, median >= want[0] && median <= want[1], "%s %s: the median %.2f is outside of %v", row.trace, policy, median, want)
		}
	}
}
