// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"fmt"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/runtime"
)

// BenchmarkPlan10Containers plans for a pod of ten containers: seven regular,
// three init of which one is a sidecar. The goal is 20 µs and 25 allocations.
//
// Beside it, in the same run, are two references for the same input: floor does
// no more than any planner has to (look each container up once, and hash it as
// its change must be noticed), naive is the second implementation of the tables
// that the tests use, which indexes everything in maps first.
func BenchmarkPlan10Containers(b *testing.B) {
	for _, state := range []struct {
		name   string
		status func(i int) string // of regular container i
	}{
		{"steady", func(int) string { return "running" }},
		{"one-crashed", func(i int) string { return []string{"exited 1", "running"}[min(i, 1)] }},
		{"all-crashed", func(int) string { return "exited 1" }},
	} {
		in := tenContainers(b, state.status)
		b.Run(state.name+"/plan", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plan = runtime.Plan(in)
			}
		})
		resizable := in
		for _, list := range [][]v1.Container{in.Pod.Spec.InitContainers, in.Pod.Spec.Containers} {
			for i := range list {
				list[i].Resources = amounts[1]
			}
		}
		resizable.Actuated = func(string) (v1.ResourceRequirements, bool) { return amounts[1], true }
		b.Run(state.name+"/plan-resizable", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plan = runtime.Plan(resizable)
			}
		})
		resizing := resizable
		resizing.Actuated = func(name string) (v1.ResourceRequirements, bool) {
			if name == "main-6" {
				return amounts[2], true
			}
			return amounts[1], true
		}
		b.Run(state.name+"/plan-one-resized", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plan = runtime.Plan(resizing)
			}
		})
		b.Run(state.name+"/reference=naive", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				naivePlan(in)
			}
		})
		b.Run(state.name+"/reference=floor", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, list := range [][]v1.Container{in.Pod.Spec.InitContainers, in.Pod.Spec.Containers} {
					for i := range list {
						if in.Status.Latest(list[i].Name) != nil {
							hash = containermeta.Hash(&list[i])
						}
					}
				}
			}
		})
	}
}

var (
	plan runtime.Actions
	hash string
)

// tenContainers has two earlier instances of each container on record.
func tenContainers(b *testing.B, regular func(i int) string) runtime.PlanInput {
	pod := []string{"init setup", "init migrate", "side proxy liveness startup"}
	status := []string{"sandbox s attempt=1", "sandbox old dead"}
	for i := range 7 {
		name := "main-" + strconv.Itoa(i)
		pod = append(pod, "main "+name+" liveness startup")
		status = append(status, fmt.Sprintf("%s %s liveness=ok startup=ok", name, regular(i)), name+" exited 1", name+" exited 2")
	}
	status = append(status, "proxy running liveness=ok startup=ok", "migrate exited 0", "setup exited 0")
	in := runtime.PlanInput{Pod: podOf(b, "", pod...)}
	in.Status, in.Probes = observe(b, in.Pod, status...)
	return in
}
