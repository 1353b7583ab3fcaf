// SPDX-License-Identifier: Apache-2.0

//go:build !nometrics

package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/prober"
)

func (s *station) get(path string) (code int, body string) {
	s.Helper()
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", s.port, path))
	require.NoError(s, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	require.NoError(s, err)
	return r.StatusCode, string(text)
}

func TestMetrics(t *testing.T) {
	s := newStation(t, backends["process"])
	manifest, _ := s.service("web", forever)
	manifest = strings.Replace(manifest, "      image:", "      readinessProbe: {exec: {command: [\"true\"]}, periodSeconds: 1}\n      image:", 1)
	s.write("web.yaml", manifest)
	s.write("refused.yaml", strings.NewReplacer("name: web", "name: refused", "spec:", "spec:\n  nodeSelector: {site: elsewhere}").Replace(manifest))
	s.start()
	s.waitPhase("web-n", v1.PodRunning)
	for _, want := range []string{
		`kubelet_node_name{node="n"} 1`, `kubelet_desired_pods{static="true"} 2`, `kubelet_admission_rejections_total{reason="Other"} 1`, "kubelet_running_pods 1",
		`kubelet_active_pods{static="true"} 1`, `kubelet_desired_pods{static=""} 0`, "kubelet_mirror_pods 0", "kubelet_pod_worker_start_duration_seconds_count 1",
		`kubelet_working_pods{config="desired",lifecycle="sync",static="true"} 1`, `kubelet_working_pods{config="runtime_only",lifecycle="terminating",static="unknown"} 0`,
		`prober_probe_duration_seconds_count{container="main",namespace="default",pod="web-n",probe_type="Readiness"}`,
		`kubelet_running_containers{container_state="running"} 1`, `kubelet_pod_worker_duration_seconds_count{operation_type="create"} 1`,
		`prober_probe_total{container="main",namespace="default",pod="web-n",pod_uid=`, "process_resident_memory_bytes",
	} {
		path := "/metrics"
		if strings.HasPrefix(want, "prober_") {
			path = "/metrics/probes"
		}
		s.eventually(want, func() bool {
			code, text := s.get(path)
			return code == http.StatusOK && strings.Contains(text, want)
		})
	}
	_, probes := s.get("/metrics/probes")
	require.Contains(t, probes, "process_start_time_seconds")
	_, all := s.get("/metrics")
	require.NotContains(t, all, "prober_", "as in the kubelet")
	code, _ := s.get("/debug/pprof/")
	require.Equal(t, http.StatusNotFound, code, "only on request")
	for _, path := range []string{"/pods", "/metrics", "/metrics/probes", "/healthz", "/stats/summary", "/debug/pprof/"} {
		r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", s.port, path), nil)
		require.NoError(t, err)
		r.Host = "evil.example.com"
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		answer.Body.Close()
		require.Equal(t, http.StatusForbidden, answer.StatusCode, "%s to a page that has rebound its name", path)
	}
	s.remove("web.yaml")
	s.eventually("the pod takes its series along", func() bool {
		_, text := s.get("/metrics")
		_, probes := s.get("/metrics/probes")
		return strings.Contains(text, "kubelet_running_pods 0") && !strings.Contains(probes, "prober_probe")
	})
	s.interrupt()
	s.start("--profiling")
	code, text := s.get("/debug/pprof/goroutine?debug=1")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, "goroutine profile")
}

// The number of labels is bounded for any resource names of a cluster.
func TestRejectionsAreCountedByReason(t *testing.T) {
	m := newMetrics("n")
	for _, reason := range []string{"OutOfcpu", "OutOfcpu", "OutOfexample.com/gpu", "OutOfhugepages-2Mi", "NodeAffinity", "UnsupportedPodSpec"} {
		m.observer().PodRejected(feature.Refusal{Reason: reason})
	}
	families, err := m.registry.Gather()
	require.NoError(t, err)
	counts := make(map[string]float64)
	for _, f := range families {
		for _, series := range f.GetMetric() {
			if f.GetName() == "kubelet_admission_rejections_total" {
				counts[series.GetLabel()[0].GetName()+"="+series.GetLabel()[0].GetValue()] = series.GetCounter().GetValue()
			}
		}
	}
	require.Equal(t, map[string]float64{
		"reason=OutOfcpu": 2, "reason=OutOfExtendedResources": 2, "reason=Other": 1, "reason=UnsupportedPodSpec": 1,
	}, counts)
}

// The series of a removed pod are deleted, with and without scrapes.
func TestSeriesOfShortLivedPodsAreDropped(t *testing.T) {
	m := newMetrics("n")
	attempt := func(uid types.UID) {
		pod := &v1.Pod{}
		pod.Name, pod.UID = "web", uid
		m.observer().Probed(prober.Attempt{Target: prober.Target{Pod: pod, Container: &v1.Container{Name: "c"}, Type: prober.Liveness}, Verdict: prober.VerdictSuccess})
	}
	count := func() (probes, durations int) {
		families, err := m.probing.Gather()
		require.NoError(t, err)
		for _, f := range families {
			switch f.GetName() {
			case "prober_probe_total":
				probes = len(f.GetMetric())
			case "prober_probe_duration_seconds":
				durations = len(f.GetMetric())
			}
		}
		return probes, durations
	}
	expect := func(wantProbes, wantDurations int) {
		t.Helper()
		probes, durations := count()
		require.Equal(t, []int{wantProbes, wantDurations}, []int{probes, durations})
	}
	attempt("first")
	m.forget(func(uid types.UID) bool { return uid != "first" })
	expect(1, 1)
	attempt("second")
	expect(2, 1)
	m.forget(func(uid types.UID) bool { return uid == "first" })
	expect(1, 1) // the one that they share is the second's now
	ended := podworkers.SyncEvent{UID: "second", State: podworkers.StateTerminated, Err: errors.New("not yet")}
	m.observer().PodSynced(ended)
	expect(1, 1)
	ended.Err = nil
	m.observer().PodSynced(ended)
	expect(0, 0)
}

// Names, types, labels and buckets are those of the kubelet, for existing dashboards.
func TestPodWorkerMetricsAreTheKubelets(t *testing.T) {
	m := newMetrics("n")
	began := time.Now()
	m.observer().PodSynced(podworkers.SyncEvent{Type: podworkers.UpdateCreate, State: podworkers.StateSync,
		Received: began, Started: began.Add(2 * time.Second), Ended: began.Add(5 * time.Second)})
	m.observer().PodSynced(podworkers.SyncEvent{Type: podworkers.UpdateKill, State: podworkers.StateTerminating,
		Started: began, Ended: began.Add(time.Second)}) // a retry: nobody asked for it
	m.observer().PodRestarted(&v1.Pod{})
	m.observer().OrphanFound("a")
	answer := httptest.NewRecorder()
	m.ServeHTTP(answer, nil)
	for _, want := range []string{
		`kubelet_pod_worker_duration_seconds_sum{operation_type="create"} 5`, `kubelet_pod_worker_duration_seconds_sum{operation_type="kill"} 1`,
		`kubelet_pod_worker_start_duration_seconds_sum 2`, `kubelet_restarted_pods_total{static=""} 1`, `kubelet_orphaned_runtime_pods_total 1`,
	} {
		require.Contains(t, answer.Body.String(), want+"\n")
	}
}
