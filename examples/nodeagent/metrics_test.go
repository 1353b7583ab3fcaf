// SPDX-License-Identifier: Apache-2.0

//go:build !nometrics

package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent"
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
		`kubelet_running_containers{container_state="running"} 1`, `kubelet_pod_worker_duration_seconds_count{operation_type="sync"}`,
		`prober_probe_total{container="main",namespace="default",pod="web-n",pod_uid=`, "process_resident_memory_bytes",
	} {
		s.eventually(want, func() bool {
			code, text := s.get("/metrics")
			return code == http.StatusOK && strings.Contains(text, want)
		})
	}
	code, _ := s.get("/debug/pprof/")
	require.Equal(t, http.StatusNotFound, code, "only on request")
	s.remove("web.yaml")
	s.eventually("the pod takes its series along", func() bool {
		_, text := s.get("/metrics")
		return strings.Contains(text, "kubelet_running_pods 0") && !strings.Contains(text, "prober_probe_total{")
	})
	s.interrupt()
	s.start("--profiling")
	code, text := s.get("/debug/pprof/goroutine?debug=1")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, "goroutine profile")
}

// The labels are few, whatever the resources of a cluster are called.
func TestRejectionsAreCountedByReason(t *testing.T) {
	m := newMetrics("n")
	for _, reason := range []string{"OutOfcpu", "OutOfcpu", "OutOfexample.com/gpu", "OutOfhugepages-2Mi", "NodeAffinity", "UnsupportedPodSpec"} {
		m.observer().PodRejected(nodeagent.Rejection{Reason: reason})
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

// A pod that came and went between two scrapes leaves no series behind.
func TestSeriesOfShortLivedPodsAreDropped(t *testing.T) {
	m := newMetrics("n")
	pod := &v1.Pod{}
	pod.UID = "short"
	m.observer().Probed(prober.Attempt{Target: prober.Target{Pod: pod, Container: &v1.Container{Name: "c"}, Type: prober.Liveness}})
	count := func() int {
		families, err := m.registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "prober_probe_total" {
				return len(f.GetMetric())
			}
		}
		return 0
	}
	m.forget(map[types.UID]bool{"short": true})
	require.Equal(t, 1, count())
	m.forget(nil)
	require.Zero(t, count())
}
