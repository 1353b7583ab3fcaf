// SPDX-License-Identifier: Apache-2.0

//go:build !nometrics

package main

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/volumemanager"
)

// metrics are the metrics of /metrics. Names and labels are the kubelet's where the meaning is
// equal.
type metrics struct {
	registry  *prometheus.Registry
	probing   *prometheus.Registry // of /metrics/probes
	rejected  *prometheus.CounterVec
	restarted *prometheus.CounterVec
	orphans   prometheus.Counter
	workers   *prometheus.HistogramVec
	starts    prometheus.Observer
	probes    *prometheus.CounterVec
	durations *prometheus.HistogramVec
	statuses  prometheus.Observer
	volumes   *prometheus.HistogramVec
	images    *prometheus.CounterVec
	evictions *prometheus.CounterVec
	ages      *prometheus.HistogramVec // of the measurements behind evictions
	cgroups   *prometheus.HistogramVec
	plugins   *prometheus.HistogramVec
	failures  *prometheus.CounterVec // of plugins

	mu     sync.Mutex
	probed map[types.UID]types.NamespacedName // pods with their own series
}

func newMetrics(node string) *metrics {
	all, probing := prometheus.NewRegistry(), prometheus.NewRegistry()
	m := &metrics{
		registry: all,
		probing:  probing,
		probed:   make(map[types.UID]types.NamespacedName),
		// Alpha in the kubelet (1.36). The kubelet also counts each new pod once.
		rejected:  counters(all, "kubelet_admission_rejections_total", "Pods that were refused when they came, by reason.", "reason"),
		restarted: counters(all, "kubelet_restarted_pods_total", "Pods that came back, under their UID, while they ended.", "static"),
		orphans:   counters(all, "kubelet_orphaned_runtime_pods_total", "Pods of the runtime that no source wants.").WithLabelValues(),
		workers:   histograms(all, "kubelet_pod_worker_duration_seconds", "Time from an update of a pod to the end of its sync, by create, update, sync and kill.", prometheus.DefBuckets, "operation_type"),
		starts:    histograms(all, "kubelet_pod_worker_start_duration_seconds", "From the arrival of a pod until it is worked on.", prometheus.DefBuckets).WithLabelValues(),
		probes:    counters(probing, "prober_probe_total", "Attempts of probes, by result.", "probe_type", "result", "container", "pod", "namespace", "pod_uid"),
		durations: histograms(probing, "prober_probe_duration_seconds", "Duration of probes that succeeded.", prometheus.DefBuckets, "probe_type", "container", "pod", "namespace"),
		statuses: histograms(all, "kubelet_pod_status_sync_duration_seconds", "From the change of a pod's status until the API server has it.",
			[]float64{.01, .05, .1, .5, 1, 5, 10, 20, 30, 45, 60}).WithLabelValues(),
		volumes: histograms(all, "storage_operation_duration_seconds", "Duration of one operation on a volume.",
			[]float64{.001, .01, .1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}, // the kubelet's buckets and two smaller ones
			"volume_plugin", "operation_name", "status", "migrated"),
		images:    counters(all, "kubelet_image_garbage_collected_total", "Images removed, by reason.", "reason"),
		evictions: counters(all, "kubelet_evictions", "Pods that were evicted, by the signal of the node or the limit of the pod.", "eviction_signal"),
		ages:      histograms(all, "kubelet_eviction_stats_age_seconds", "Time between the measurement of a signal and the eviction for it.", prometheus.DefBuckets, "eviction_signal"),
		cgroups:   histograms(all, "kubelet_cgroup_manager_duration_seconds", "Duration of operations on cgroups of pods, by update and destroy.", prometheus.DefBuckets, "operation_type"),
		plugins:   histograms(all, "kubelet_credential_provider_plugin_duration", "Duration of runs of credential provider plug-ins, in seconds.", prometheus.DefBuckets, "plugin_name"),
		failures:  counters(all, "kubelet_credential_provider_plugin_errors_total", "Runs of credential provider plug-ins without usable credentials.", "plugin_name"),
	}
	name := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kubelet_node_name", Help: "The node's name; always 1.", ConstLabels: prometheus.Labels{"node": node},
	})
	name.Set(1)
	all.MustRegister(name, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	started := prometheus.NewGauge(prometheus.GaugeOpts{Name: "process_start_time_seconds", Help: "Start of the agent since the Unix epoch in seconds."})
	started.SetToCurrentTime()
	probing.MustRegister(started)
	return m
}

// counters registers a counter for each value of the labels. Without labels, it is one counter.
func counters(in *prometheus.Registry, name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	in.MustRegister(c)
	return c
}

// histograms registers a histogram for each value of the labels. Without labels, it is one histogram.
func histograms(in *prometheus.Registry, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	in.MustRegister(h)
	return h
}

// observer returns the callbacks that update the metrics.
func (m *metrics) observer() node.Observer {
	return node.Observer{
		PodRejected:  func(r feature.Refusal) { m.rejected.WithLabelValues(rejectionLabel(r.Reason)).Inc() },
		PodSynced:    m.synced,
		PodRestarted: func(pod *v1.Pod) { m.restarted.WithLabelValues(staticLabel(podconfig.IsStatic(pod))).Inc() },
		OrphanFound:  func(types.UID) { m.orphans.Inc() },
		Probed:       m.attempted,
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
			m.volumes.WithLabelValues(plugin, e.Kind.String(), status, "false").Observe(e.Ended.Sub(e.Started).Seconds())
		},
		ImageRemoved: func(r imagegc.Removed) { m.images.WithLabelValues(string(r.Reason)).Inc() },
	}
}

// changedCgroup measures an operation on a cgroup.
func (m *metrics) changedCgroup(operation string, took time.Duration) {
	m.cgroups.WithLabelValues(operation).Observe(took.Seconds())
}

// evicted counts an eviction. measured is the time of the measurement that led to it, zero for a limit of
// the pod.
func (m *metrics) evicted(cause string, measured time.Time) {
	m.evictions.WithLabelValues(cause).Inc()
	if !measured.IsZero() {
		m.ages.WithLabelValues(cause).Observe(time.Since(measured).Seconds())
	}
}

// ranPlugin counts a run of a credential provider plug-in.
func (m *metrics) ranPlugin(name string, took time.Duration, err error) {
	m.plugins.WithLabelValues(name).Observe(took.Seconds())
	if err != nil {
		m.failures.WithLabelValues(name).Inc()
	}
}

// synced counts the end of a worker call. As in the kubelet, the duration starts with the request
// for the call, or with the call itself if there was no request.
func (m *metrics) synced(e podworkers.SyncEvent) {
	asked := e.Started
	if !e.Received.IsZero() {
		asked = e.Received
	}
	m.workers.WithLabelValues(e.Type.String()).Observe(e.Ended.Sub(asked).Seconds())
	if e.Type == podworkers.UpdateCreate && e.State == podworkers.StateSync && !e.Received.IsZero() {
		m.starts.Observe(e.Started.Sub(e.Received).Seconds())
	}
	if e.State == podworkers.StateTerminated && e.Err == nil { // not only at a scrape
		m.forget(func(uid types.UID) bool { return uid == e.UID })
	}
}

func (m *metrics) attempted(a prober.Attempt) {
	pod, kind, container := a.Target.Pod, a.Target.Type.String(), a.Target.Container.Name
	result := map[prober.Verdict]string{
		prober.VerdictSuccess: "successful", prober.VerdictWarning: "successful", prober.VerdictFailure: "failed", prober.VerdictNone: "unknown",
	}[a.Verdict]
	m.mu.Lock()
	defer m.mu.Unlock()
	m.probed[pod.UID] = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	m.probes.WithLabelValues(kind, result, container, pod.Name, pod.Namespace, string(pod.UID)).Inc()
	if result == "successful" {
		m.durations.WithLabelValues(kind, container, pod.Name, pod.Namespace).Observe(a.Duration().Seconds())
	}
}

// rejectionLabel returns the label for a reason, as the kubelet (1.36) does: the kubelet's fixed
// list of reasons bounds the number of labels. For taints the kubelet's list has a text that is
// never a reason; this list has the reason. ReasonUnsupported is a reason of this agent only.
func rejectionLabel(reason string) string {
	switch reason {
	case "OutOfcpu", "OutOfmemory", "OutOfephemeral-storage", "OutOfpods",
		admission.ReasonTaint, admission.ReasonOS, admission.ReasonOSSelector, admission.ReasonSysctl, "VolumeAttachmentLimitExceeded",
		admission.ReasonUnsupported:
		return reason
	}
	if strings.HasPrefix(reason, admission.ReasonOutOf) {
		return "OutOfExtendedResources"
	}
	return "Other"
}

// forget deletes the series of pods that are gone. Series without a UID stay if another pod has the
// same name.
func (m *metrics) forget(gone func(types.UID) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid, name := range m.probed {
		if !gone(uid) {
			continue
		}
		delete(m.probed, uid)
		m.probes.DeletePartialMatch(prometheus.Labels{"pod_uid": string(uid)})
		if !slices.Contains(slices.Collect(maps.Values(m.probed)), name) {
			m.durations.DeletePartialMatch(prometheus.Labels{"pod": name.Name, "namespace": name.Namespace})
		}
	}
}

// ServeHTTP serves /metrics.
func (m *metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) { serveMetrics(w, m.registry) }

// serveProbes serves /metrics/probes. As in the kubelet, the series per container are not in /metrics.
func (m *metrics) serveProbes(w http.ResponseWriter, _ *http.Request) { serveMetrics(w, m.probing) }

// serveMetrics writes the text format. The handler of the client library also supports other formats
// and compression, and makes the program two megabytes larger.
func serveMetrics(w http.ResponseWriter, from prometheus.Gatherer) {
	families, err := from.Gather()
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
