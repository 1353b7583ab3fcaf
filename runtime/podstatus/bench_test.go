// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// BenchmarkGenerate10Containers is a settled pod with seven regular and three init containers, and
// an earlier instance of each on record. The reference in the same run is a deep copy of the
// result, the minimum cost of a status that shares no memory.
func BenchmarkGenerate10Containers(b *testing.B) {
	pod := []string{"init setup", "init migrate", "side proxy startup readiness"}
	observed := []string{"sandbox s", "proxy running", "migrate exited 0", "setup exited 0"}
	for i := range 7 {
		name := "main-" + strconv.Itoa(i)
		pod = append(pod, "main "+name+" startup readiness")
		observed = append(observed, name+" running #1", name+" exited 1")
	}
	in := Input{Pod: podOf(b, always, pod...), Observed: seen(b, observed...), HostIPs: []string{"192.168.0.1"}, Now: noon}
	first := Generate(in)
	in.Previous = &first
	var out v1.PodStatus
	b.Run("generate", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			out = Generate(in)
		}
	})
	b.Run("reference=deepcopy", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			out = *first.DeepCopy()
		}
	})
	_ = out
}
