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
	starts    prometheus.Histogram
	probes    *prometheus.CounterVec
	durations *prometheus.HistogramVec
	statuses  prometheus.Histogram
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
	m := &metrics{
		registry: prometheus.NewRegistry(),
		probing:  prometheus.NewRegistry(),
		probed:   make(map[types.UID]types.NamespacedName),
		// Alpha in the kubelet (1.36). The kubelet also counts each new pod once.
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_admission_rejections_total", Help: "Pods that were refused when they came, by reason.",
		}, []string{"reason"}),
		restarted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_restarted_pods_total", Help: "Pods that came back, under their UID, while they ended.",
		}, []string{"static"}),
		orphans: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubelet_orphaned_runtime_pods_total", Help: "Pods of the runtime that no source wants.",
		}),
		workers: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_pod_worker_duration_seconds", Help: "Time from an update of a pod to the end of its sync, by create, update, sync and kill.", Buckets: prometheus.DefBuckets,
		}, []string{"operation_type"}),
		starts: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_pod_worker_start_duration_seconds", Help: "From the arrival of a pod until it is worked on.", Buckets: prometheus.DefBuckets,
		}),
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prober_probe_total", Help: "Attempts of probes, by result.",
		}, []string{"probe_type", "result", "container", "pod", "namespace", "pod_uid"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "prober_probe_duration_seconds", Help: "Duration of probes that succeeded.", Buckets: prometheus.DefBuckets,
		}, []string{"probe_type", "container", "pod", "namespace"}),
		statuses: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_pod_status_sync_duration_seconds", Help: "From the change of a pod's status until the API server has it.",
			Buckets: []float64{.01, .05, .1, .5, 1, 5, 10, 20, 30, 45, 60},
		}),
		volumes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "storage_operation_duration_seconds", Help: "Duration of one operation on a volume.",
			Buckets: []float64{.001, .01, .1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}, // the kubelet's buckets and two smaller ones
		}, []string{"volume_plugin", "operation_name", "status", "migrated"}),
		images: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_image_garbage_collected_total", Help: "Images removed, by reason.",
		}, []string{"reason"}),
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_evictions", Help: "Pods that were evicted, by the signal of the node or the limit of the pod.",
		}, []string{"eviction_signal"}),
		ages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_eviction_stats_age_seconds", Help: "Time between the measurement of a signal and the eviction for it.", Buckets: prometheus.DefBuckets,
		}, []string{"eviction_signal"}),
		cgroups: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_cgroup_manager_duration_seconds", Help: "Duration of operations on cgroups of pods, by update and destroy.", Buckets: prometheus.DefBuckets,
		}, []string{"operation_type"}),
		plugins: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_credential_provider_plugin_duration", Help: "Duration of runs of credential provider plug-ins, in seconds.", Buckets: prometheus.DefBuckets,
		}, []string{"plugin_name"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_credential_provider_plugin_errors_total", Help: "Runs of credential provider plug-ins without usable credentials.",
		}, []string{"plugin_name"}),
	}
	name := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kubelet_node_name", Help: "The node's name; always 1.", ConstLabels: prometheus.Labels{"node": node},
	})
	name.Set(1)
	m.registry.MustRegister(m.rejected, m.restarted, m.orphans, m.workers, m.starts, m.statuses, m.volumes, m.images, m.evictions, m.ages, m.cgroups, m.plugins, m.failures, name,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	started := prometheus.NewGauge(prometheus.GaugeOpts{Name: "process_start_time_seconds", Help: "Start of the agent since the Unix epoch in seconds."})
	started.SetToCurrentTime()
	m.probing.MustRegister(m.probes, m.durations, started)
	return m
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
