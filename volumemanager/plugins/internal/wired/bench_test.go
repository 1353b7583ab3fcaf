// SPDX-License-Identifier: Apache-2.0

package wired_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager"
)

// kinds are pods with two volumes each. burst is the kubelet's time for a hundred pods (contract
// §0).
var kinds = []struct {
	name    string
	sources []v1.VolumeSource
	burst   time.Duration
}{
	{"emptyDir", emptyDirs, 302 * time.Millisecond},
	{"configMap", []v1.VolumeSource{configMap, configMap}, 605 * time.Millisecond},
	{"secret", []v1.VolumeSource{aSecret, aSecret}, 605 * time.Millisecond},
}

// report adds the median of times, its goal, and the kubelet's time to the benchmark.
func report(b *testing.B, times []time.Duration, goal, kubelet time.Duration) {
	b.Helper()
	b.ReportMetric(float64(median(times).Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(goal.Nanoseconds()), "goal-ns")
	if kubelet > 0 {
		b.ReportMetric(float64(kubelet.Nanoseconds()), "kubelet-ns")
	}
}

// median sorts times and returns the median.
func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// BenchmarkPodReady measures the mounting of a pod with two volumes; floor is the plugins' own
// work.
func BenchmarkPodReady(b *testing.B) {
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) { mountAndUnmount(b, k.sources, true) })
		b.Run(k.name+"/floor", func(b *testing.B) { benchmarkFloor(b, k.sources) })
	}
}

// BenchmarkPodUnmounted measures the unmounting of a pod with two volumes.
func BenchmarkPodUnmounted(b *testing.B) {
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) { mountAndUnmount(b, k.sources, false) })
	}
}

func mountAndUnmount(b *testing.B, sources []v1.VolumeSource, ready bool) {
	n := newNode(b, b.TempDir())
	var up, down []time.Duration
	i := 0
	for b.Loop() {
		i++
		p := pod(types.UID(fmt.Sprint("pod-", i)), sources...)
		begin := time.Now()
		n.up(b, p)
		middle := time.Now()
		n.down(b, p.UID)
		up, down = append(up, middle.Sub(begin)), append(down, time.Since(middle))
	}
	if ready {
		report(b, up, 5*time.Millisecond, 301*time.Millisecond)
	} else {
		report(b, down, 10*time.Millisecond, 301*time.Millisecond)
	}
}

func benchmarkFloor(b *testing.B, sources []v1.VolumeSource) {
	n := newNode(b, b.TempDir())
	var up []time.Duration
	i := 0
	for b.Loop() {
		i++
		p := pod(types.UID(fmt.Sprint("pod-", i)), sources...)
		begin := time.Now()
		var undo []func() error
		for v := range p.Spec.Volumes {
			spec := volumemanager.Spec{Volume: &p.Spec.Volumes[v]}
			plugin := n.plugins[slices.IndexFunc(n.plugins, func(x volumemanager.Plugin) bool { return x.Supports(spec) })]
			place := volumemanager.Place{Root: n.root, PodUID: p.UID, Plugin: plugin.Name(), Inner: spec.InnerName()}
			_, err := plugin.SetUp(b.Context(), volumemanager.Mount{Place: place, Spec: spec, Pod: p, Outer: []string{spec.InnerName()}})
			require.NoError(b, err)
			undo = append(undo, func() error {
				return plugin.TearDown(b.Context(), volumemanager.Unmount{Place: place, Spec: spec})
			})
		}
		up = append(up, time.Since(begin))
		for _, f := range undo {
			require.NoError(b, f())
		}
	}
	report(b, up, 5*time.Millisecond, 0)
}

// BenchmarkRefreshVisible measures the time from the change of an object until a reader of the
// volume sees the change. The kubelet takes 60 to 90 s.
func BenchmarkRefreshVisible(b *testing.B) {
	for _, k := range kinds[1:] {
		for _, pods := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/pods=%d", k.name, pods), func(b *testing.B) {
				n := newNode(b, b.TempDir())
				var all []*v1.Pod
				for i := range pods {
					all = append(all, pod(types.UID(fmt.Sprint(i)), k.sources[0]))
					n.up(b, all[i])
				}
				var times []time.Duration
				i := 0
				for b.Loop() {
					i++
					text := fmt.Sprint("generation ", i)
					begin := time.Now()
					n.set(text)
					for _, p := range all {
						for n.read(p, "v0") != text {
						}
					}
					times = append(times, time.Since(begin))
				}
				report(b, times, 50*time.Millisecond, 60*time.Second)
				for _, p := range all {
					n.down(b, p.UID)
				}
			})
		}
	}
}
