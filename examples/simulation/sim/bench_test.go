// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/kube"
	"github.com/keelson-dev/keelson/examples/simulation/sim/workload"
)

// BenchmarkMillionPods runs 1,000,000 pods on 1,000 nodes with the default profile: a pod per 100 ms
// of virtual time, which take nine minutes on average, so that about 80 % of the cores are in use.
func BenchmarkMillionPods(b *testing.B) {
	shapes := []*sim.Shape{shape(b, "250m"), shape(b, "500m"), shape(b, "1")}
	b.ReportAllocs()
	for b.Loop() {
		s, err := sim.New(sim.Options{
			Nodes: nodes(1000), Profile: kube.Profile(),
			Workload: workload.Poisson{Seed: 1, Jobs: 1_000_000, Every: 100 * time.Millisecond, Mean: 9 * time.Minute, Shapes: shapes},
		})
		require.NoError(b, err)
		report, err := s.Run(b.Context())
		require.NoError(b, err)
		require.Equal(b, 1_000_000, report.Succeeded)
	}
}
