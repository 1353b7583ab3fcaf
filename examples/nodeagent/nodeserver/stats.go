// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/examples/nodeagent/internal/exposition"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats"
)

// UsageSource measures the node. *nodestats.Collector implements it.
type UsageSource interface {
	// Collect returns a snapshot with at least the requested detail. The snapshot is not written. It
	// is called by many goroutines, and returns soon after ctx ends.
	Collect(ctx context.Context, r nodestats.Request) (*nodestats.Snapshot, error)
}

// StatsSummary serves the Summary API under /stats/summary. With the parameter
// only_cpu_and_memory=true the answer has only these.
func StatsSummary(source UsageSource) Group {
	h := func(w http.ResponseWriter, r *http.Request) {
		want := nodestats.Request{}
		cpuAndMemory := r.FormValue("only_cpu_and_memory") == "true"
		if cpuAndMemory {
			want.Detail = nodestats.CPUAndMemory
		}
		s, err := source.Collect(r.Context(), want)
		if err != nil {
			http.Error(w, fmt.Sprintf("Internal Error: %v", err), http.StatusInternalServerError)
			return
		}
		summary := s.Summary
		if cpuAndMemory {
			summary = onlyCPUAndMemory(summary)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = writeSummary(w, summary) // a client that has left cannot be told
	}
	return Group{[]route{
		{http.MethodGet, "/stats/summary", http.HandlerFunc(h)},
		{http.MethodPost, "/stats/summary", http.HandlerFunc(h)},
	}}
}

// writeSummary writes a Summary pod by pod, so that the text is never in memory as a whole.
func writeSummary(to io.Writer, s *statsapi.Summary) error {
	w := bufio.NewWriterSize(to, 16<<10)
	encoder := json.NewEncoder(w)
	w.WriteString(`{"node":`)
	if err := encoder.Encode(&s.Node); err != nil {
		return err
	}
	w.WriteString(`,"pods":[`)
	for i := range s.Pods {
		if i > 0 {
			w.WriteByte(',')
		}
		if err := encoder.Encode(&s.Pods[i]); err != nil {
			return err
		}
	}
	w.WriteString("]}\n")
	return w.Flush()
}

// onlyCPUAndMemory returns a copy without the parts of a complete snapshot.
func onlyCPUAndMemory(s *statsapi.Summary) *statsapi.Summary {
	out := &statsapi.Summary{Node: s.Node, Pods: make([]statsapi.PodStats, 0, len(s.Pods))}
	out.Node.Network, out.Node.Fs, out.Node.Runtime, out.Node.Rlimit, out.Node.IO = nil, nil, nil, nil, nil
	for _, p := range s.Pods {
		p.Network, p.VolumeStats, p.EphemeralStorage, p.ProcessStats, p.IO = nil, nil, nil, nil, nil
		all := p.Containers
		p.Containers = make([]statsapi.ContainerStats, 0, len(all))
		for _, c := range all {
			c.Rootfs, c.Logs, c.IO = nil, nil, nil
			p.Containers = append(p.Containers, c)
		}
		out.Pods = append(out.Pods, p)
	}
	return out
}

// ResourceMetrics serves /metrics/resource, from which metrics-server takes the usage of nodes and
// pods. If the measurement fails, the answer is the metric of the failure.
func ResourceMetrics(source UsageSource) Group {
	return get("/metrics/resource", func(w http.ResponseWriter, r *http.Request) {
		var summary *statsapi.Summary
		if s, err := source.Collect(r.Context(), nodestats.Request{Detail: nodestats.CPUAndMemory}); err == nil {
			summary = s.Summary
		}
		w.Header().Set("Content-Type", exposition.ContentType)
		_ = nodestats.WriteResourceMetrics(w, summary) // a client that has left cannot be told
	})
}

// ContainerMetrics serves /metrics/cadvisor: the usage of containers under the names of cadvisor, for
// dashboards.
func ContainerMetrics(source UsageSource) Group {
	return get("/metrics/cadvisor", func(w http.ResponseWriter, r *http.Request) {
		s, err := source.Collect(r.Context(), nodestats.Request{Detail: nodestats.Containers})
		if err != nil {
			http.Error(w, fmt.Sprintf("Internal Error: %v", err), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", exposition.ContentType)
		_ = nodestats.WriteContainerMetrics(w, s) // a client that has left cannot be told
	})
}
