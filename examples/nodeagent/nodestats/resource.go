// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/examples/nodeagent/internal/exposition"
)

// WriteResourceMetrics writes the metrics of /metrics/resource (kubelet 1.36), which metrics-server
// reads. A Summary of nil stands for a failed measurement: only the error is written. The error is
// that of w.
func WriteResourceMetrics(w io.Writer, s *statsapi.Summary) error {
	out := exposition.NewWriter(w)
	failed := 1.0
	if s != nil {
		failed = 0
		writeResources(out, s)
	}
	out.Metric("resource_scrape_error", exposition.Gauge, "1 if there was an error while getting container metrics, 0 otherwise")
	out.Sample(exposition.Labels{}, failed, time.Time{})
	return out.Flush()
}

// subject is something with usage: the node, a pod or a container.
type subject struct {
	labels exposition.Labels
	cpu    *statsapi.CPUStats
	memory *statsapi.MemoryStats
	swap   *statsapi.SwapStats
	start  metav1.Time
}

func writeResources(out *exposition.Writer, s *statsapi.Summary) {
	var pods, containers []subject
	for i := range s.Pods {
		p := &s.Pods[i]
		labels := exposition.Labels{}.With("pod", p.PodRef.Name, "namespace", p.PodRef.Namespace)
		pods = append(pods, subject{labels: labels, cpu: p.CPU, memory: p.Memory, swap: p.Swap})
		for j := range p.Containers {
			c := &p.Containers[j]
			containers = append(containers, subject{labels.With("container", c.Name), c.CPU, c.Memory, c.Swap, c.StartTime})
		}
	}
	node := []subject{{cpu: s.Node.CPU, memory: s.Node.Memory, swap: s.Node.Swap}}
	writeUsage(out, "node", "of the node", node)
	writeUsage(out, "container", "of the container", containers)
	writeContainers(out, containers)
	writeUsage(out, "pod", "of the pod", pods)
}

// writeUsage writes the metrics that nodes, pods and containers have. Each value has the time of its
// measurement.
func writeUsage(out *exposition.Writer, prefix, of string, all []subject) {
	out.Metric(prefix+"_cpu_usage_seconds_total", exposition.Counter, "Processor time "+of+" in core-seconds")
	for _, s := range all {
		if s.cpu != nil && s.cpu.UsageCoreNanoSeconds != nil {
			out.Sample(s.labels, float64(*s.cpu.UsageCoreNanoSeconds)/1e9, s.cpu.Time.Time)
		}
	}
	out.Metric(prefix+"_memory_working_set_bytes", exposition.Gauge, "Working set "+of+" in bytes")
	for _, s := range all {
		if s.memory != nil && s.memory.WorkingSetBytes != nil {
			out.Sample(s.labels, float64(*s.memory.WorkingSetBytes), s.memory.Time.Time)
		}
	}
	out.Metric(prefix+"_swap_usage_bytes", exposition.Gauge, "Used swap "+of+" in bytes")
	for _, s := range all {
		if s.swap != nil && s.swap.SwapUsageBytes != nil {
			out.Sample(s.labels, float64(*s.swap.SwapUsageBytes), s.swap.Time.Time)
		}
	}
}

// writeContainers writes the metrics that only containers have.
func writeContainers(out *exposition.Writer, all []subject) {
	out.Metric("container_swap_limit_bytes", exposition.Gauge, "Swap that the container may use, in bytes")
	for _, s := range all {
		if s.swap != nil && s.swap.SwapUsageBytes != nil && s.swap.SwapAvailableBytes != nil {
			out.Sample(s.labels, float64(*s.swap.SwapUsageBytes+*s.swap.SwapAvailableBytes), s.swap.Time.Time)
		}
	}
	out.Metric("container_start_time_seconds", exposition.Gauge, "Start time of the container since the Unix epoch in seconds")
	for _, s := range all {
		if !s.start.IsZero() {
			out.Sample(s.labels, float64(s.start.UnixNano())/1e9, time.Time{})
		}
	}
}
