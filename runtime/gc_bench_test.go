// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"fmt"
	"testing"

	"github.com/keelson-dev/keelson/runtime"
)

var gcPlanned []runtime.GCAction

// BenchmarkPlanGC plans for 1,000 ended containers: five of each of four containers of 50 pods. In
// "keep" the limits hold. The reference is the second implementation of the rules in the tests.
func BenchmarkPlanGC(b *testing.B) {
	var lines []string
	for u := range 50 {
		line := fmt.Sprintf("u%d s%d+", u, u)
		for age := range 5 {
			for c := range 4 {
				line += fmt.Sprintf(" c%d=exited@%d/s%d", c, 100*age+u+c, u)
			}
		}
		lines = append(lines, line)
	}
	in := runtime.GCInput{Now: gcNow(), Pods: gcPods(lines...), Query: runtime.GCQuery{Fate: gcFates(""), Reported: allReported}}
	for _, tc := range []struct {
		name   string
		policy runtime.GCPolicy
		drops  int
	}{
		{"keep", gcPolicy(-1, -1), 0},
		{"per-container", gcPolicy(1, -1), 800},
		{"total", gcPolicy(-1, 500), 600},
	} {
		in.Policy = tc.policy
		b.Run(tc.name+"/plan", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				gcPlanned = runtime.PlanGC(in)
			}
			if len(gcPlanned) != tc.drops {
				b.Fatalf("%d actions, want %d", len(gcPlanned), tc.drops)
			}
		})
		b.Run(tc.name+"/reference=naive", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				(&naiveGC{in: in}).run()
			}
		})
	}
}
