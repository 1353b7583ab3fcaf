// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats/cgroup"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// instant is a stats.Reader that answers at once.
type instant []stats.Pod

func (instant) ContainerStats(context.Context, runtime.ContainerID) (*stats.Container, error) {
	return nil, runtime.ErrNotFound
}

func (r instant) ListStats(context.Context) ([]stats.Pod, error) { return r, nil }

// benchNode is a collector for pods with two containers with cgroups, two emptyDirs and logs.
func benchNode(b *testing.B, pods int) *Collector {
	b.Helper()
	dir := b.TempDir()
	write := func(text string, elements ...string) {
		path := filepath.Join(append([]string{dir}, elements...)...)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	write("", "cgroup", "cgroup.controllers")
	var known []*v1.Pod
	var measured instant
	for i := range pods {
		pod := example(epoch).pods[0].DeepCopy()
		usage := *example(epoch).usage["1"]
		pod.Name, pod.UID = fmt.Sprint("web-", i), types.UID(fmt.Sprint("uid-", i))
		usage.Name, usage.UID = pod.Name, pod.UID
		usage.Containers = append([]stats.Container(nil), usage.Containers...)
		for j, name := range []string{"main", "side"} {
			id := fmt.Sprintf("%064x", 2*i+j)
			usage.Containers[j].ID.ID = id
			group := filepath.Join("cgroup", "kubepods", string(pod.UID), id)
			write("usage_usec 1\nuser_usec 1\nsystem_usec 1\nnr_periods 1\nnr_throttled 1\nthrottled_usec 1\n", group, "cpu.stat")
			write(strings.Repeat("some_name 12345678\n", 50), group, "memory.stat")
			write("8:0 rbytes=1 wbytes=1 rios=1 wios=1 dbytes=0 dios=0\n", group, "io.stat")
			write("1\n", group, "pids.current")
			for _, resource := range []string{"cpu", "memory", "io"} {
				write("some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n", group, resource+".pressure")
			}
			write(fmt.Sprintln(os.Getpid()), group, "cgroup.procs")
			write("line\n", "logs", "default_"+pod.Name+"_"+string(pod.UID), name, "0.log")
		}
		write("x", "root", "pods", string(pod.UID), "volumes", "kubernetes.io~empty-dir", "scratch", "file")
		known, measured = append(known, pod), append(measured, usage)
	}
	c, err := New(Options{
		NodeName: "n", Root: filepath.Join(dir, "root"), LogDir: filepath.Join(dir, "logs"), Pods: func() []*v1.Pod { return known },
		Runtime: measured, Cgroups: cgroup.New(filepath.Join(dir, "cgroup")),
	})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkCollect is a measurement without the time of the runtime.
func BenchmarkCollect(b *testing.B) {
	for name, detail := range map[string]Detail{"cpu-and-memory": CPUAndMemory, "containers": Containers, "complete": Complete} {
		b.Run(name+"/pods=100", func(b *testing.B) {
			c := benchNode(b, 100)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Collect(b.Context(), Request{Detail: detail, Fresh: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWrite writes the metrics of a snapshot. The reference writes those of /metrics/resource by
// way of a registry.
func BenchmarkWrite(b *testing.B) {
	c := benchNode(b, 100)
	s, err := c.Collect(b.Context(), Request{Detail: Containers})
	if err != nil {
		b.Fatal(err)
	}
	for name, write := range map[string]func() error{
		"resource":  func() error { return WriteResourceMetrics(io.Discard, s.Summary) },
		"cadvisor":  func() error { return WriteContainerMetrics(io.Discard, s) },
		"reference": func() error { return writeByRegistry(s) },
	} {
		b.Run(name+"/pods=100", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := write(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// byRegistry is a collector of as many series as /metrics/resource has.
type byRegistry struct {
	s     *Snapshot
	descs []*prometheus.Desc
}

func (r *byRegistry) Describe(to chan<- *prometheus.Desc) {
	for _, d := range r.descs {
		to <- d
	}
}

func (r *byRegistry) Collect(to chan<- prometheus.Metric) {
	for _, d := range r.descs {
		for i := range r.s.Summary.Pods {
			p := &r.s.Summary.Pods[i]
			for _, name := range []string{"main", "side", ""} {
				to <- prometheus.NewMetricWithTimestamp(time.Now(), prometheus.MustNewConstMetric(d, prometheus.GaugeValue, 1, name, p.PodRef.Namespace, p.PodRef.Name))
			}
		}
	}
}

func writeByRegistry(s *Snapshot) error {
	r := &byRegistry{s: s}
	for _, name := range []string{"cpu", "memory", "swap"} {
		r.descs = append(r.descs, prometheus.NewDesc(name, name, []string{"container", "namespace", "pod"}, nil))
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(r)
	families, err := registry.Gather()
	if err != nil {
		return err
	}
	encoder := expfmt.NewEncoder(io.Discard, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return err
		}
	}
	return nil
}
