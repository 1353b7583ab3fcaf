// SPDX-License-Identifier: Apache-2.0

//go:build !nometrics

package main

import (
	"net/http"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent/admission"
	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/volumemanager"
)

// metrics are what /metrics shows, under the kubelet's names and with its
// labels, where the meaning is the same.
type metrics struct {
	registry *prometheus.Registry
	rejected *prometheus.CounterVec
	workers  *prometheus.HistogramVec
	probes   *prometheus.CounterVec
	statuses prometheus.Histogram
	volumes  *prometheus.HistogramVec
	images   *prometheus.CounterVec

	mu     sync.Mutex
	probed map[types.UID]bool // pods that have series of their own
}

func newMetrics(node string) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		probed:   make(map[types.UID]bool),
		// Alpha in the kubelet (1.36), which counts each pod that comes once, too.
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_admission_rejections_total", Help: "Pods that were refused when they came, by reason.",
		}, []string{"reason"}),
		workers: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_pod_worker_duration_seconds", Help: "Duration of one call for a pod, by operation.", Buckets: prometheus.DefBuckets,
		}, []string{"operation_type"}),
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prober_probe_total", Help: "Attempts of probes, by result.",
		}, []string{"probe_type", "result", "container", "pod", "namespace", "pod_uid"}),
		statuses: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_pod_status_sync_duration_seconds", Help: "From the change of a pod's status until the API server has it.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
		volumes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "storage_operation_duration_seconds", Help: "Duration of one operation on a volume.",
			Buckets: []float64{.001, .005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 120},
		}, []string{"volume_plugin", "operation_name", "status"}),
		images: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_image_garbage_collected_total", Help: "Images removed, by reason.",
		}, []string{"reason"}),
	}
	name := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kubelet_node_name", Help: "The node's name; always 1.", ConstLabels: prometheus.Labels{"node": node},
	})
	name.Set(1)
	m.registry.MustRegister(m.rejected, m.workers, m.probes, m.statuses, m.volumes, m.images, name,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// observer feeds the metrics.
func (m *metrics) observer() nodeagent.Observer {
	return nodeagent.Observer{
		PodRejected: func(r nodeagent.Rejection) { m.rejected.WithLabelValues(rejectionLabel(r.Reason)).Inc() },
		PodSynced: func(e podworkers.SyncEvent) {
			m.workers.WithLabelValues(e.State.String()).Observe(e.Ended.Sub(e.Started).Seconds())
		},
		Probed: func(a prober.Attempt) {
			pod, result := a.Target.Pod, map[prober.Verdict]string{
				prober.VerdictSuccess: "successful", prober.VerdictWarning: "successful", prober.VerdictFailure: "failed", prober.VerdictNone: "unknown",
			}[a.Verdict]
			m.mu.Lock()
			defer m.mu.Unlock()
			m.probed[pod.UID] = true
			m.probes.WithLabelValues(a.Target.Type.String(), result, a.Target.Container.Name, pod.Name, pod.Namespace, string(pod.UID)).Inc()
		},
		StatusRequested: func(e statusmanager.RequestEvent) {
			if e.Err == nil && e.Request == statusmanager.RequestPatch {
				m.statuses.Observe(e.Latency.Seconds())
			}
		},
		VolumeOperated: func(e volumemanager.OperationEnd) {
			status := "success"
			if e.Err != nil {
				status = "fail-unknown"
			}
			plugin, _, _ := volumemanager.SplitUniqueVolumeName(e.Volume)
			m.volumes.WithLabelValues(plugin, e.Kind.String(), status).Observe(e.Ended.Sub(e.Started).Seconds())
		},
		ImageRemoved: func(r imagegc.Removed) { m.images.WithLabelValues(string(r.Reason)).Inc() },
	}
}

// rejectionLabel is what the kubelet (1.36) counts a rejection under: its own list of
// reasons, of which there are always few, whatever resources a cluster has names for.
// TaintToleration is on that list by a text that never is a reason. Pods that the
// runtime cannot run have a reason of this agent's.
func rejectionLabel(reason string) string {
	switch reason {
	case "OutOfcpu", "OutOfmemory", "OutOfephemeral-storage", "OutOfpods",
		admission.ReasonTaint, admission.ReasonOS, admission.ReasonOSSelector, admission.ReasonSysctl, "VolumeAttachmentLimitExceeded",
		nodeagent.ReasonUnsupported:
		return reason
	}
	if strings.HasPrefix(reason, admission.ReasonOutOf) {
		return "OutOfExtendedResources"
	}
	return "Other"
}

// podMetrics are counted when they are asked for. Those of which nothing is known any
// more take their probes along.
type podMetrics struct {
	m       *metrics
	agent   *nodeagent.Agent
	desired *prometheus.Desc
	running *prometheus.Desc
	states  *prometheus.Desc
}

// watch has the agent's pods counted at each scrape.
func (m *metrics) watch(agent *nodeagent.Agent) {
	m.registry.MustRegister(&podMetrics{
		m: m, agent: agent,
		desired: prometheus.NewDesc("kubelet_desired_pods", "Pods that this node is to run.", []string{"static"}, nil),
		running: prometheus.NewDesc("kubelet_running_pods", "Pods with a running container.", nil, nil),
		states:  prometheus.NewDesc("kubelet_running_containers", "Containers, by state.", []string{"container_state"}, nil),
	})
}

// Describe implements prometheus.Collector.
func (p *podMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- p.desired
	to <- p.running
	to <- p.states
}

// Collect implements prometheus.Collector. A registry makes one call at a time.
func (p *podMetrics) Collect(to chan<- prometheus.Metric) {
	desired, states, running, now := map[bool]int{}, map[string]int{}, 0, make(map[types.UID]bool)
	for _, pod := range p.agent.Pods() {
		now[pod.UID] = true
		desired[podconfig.IsStatic(pod)]++
		before := states["running"]
		for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
			for i := range list {
				states[state(&list[i])]++
			}
		}
		if states["running"] > before {
			running++
		}
	}
	p.m.forget(now)
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	gauge(p.desired, desired[true], "true")
	gauge(p.desired, desired[false], "false")
	gauge(p.running, running)
	for _, name := range []string{"created", "running", "exited"} {
		gauge(p.states, states[name], name)
	}
}

// forget drops the series of pods that are gone, also of those that came and went
// between two scrapes.
func (m *metrics) forget(now map[types.UID]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid := range m.probed {
		if !now[uid] {
			m.probes.DeletePartialMatch(prometheus.Labels{"pod_uid": string(uid)})
			delete(m.probed, uid)
		}
	}
}

func state(c *v1.ContainerStatus) string {
	switch {
	case c.State.Running != nil:
		return "running"
	case c.State.Terminated != nil:
		return "exited"
	default:
		return "created"
	}
}

// ServeHTTP writes the text format. The client library's own handler also speaks
// others and compresses, which makes the program two megabytes larger.
func (m *metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	families, err := m.registry.Gather()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	w.Header().Set("Content-Type", string(format))
	encoder := expfmt.NewEncoder(w, format)
	for _, family := range families {
		if encoder.Encode(family) != nil {
			return // the client went away
		}
	}
}
