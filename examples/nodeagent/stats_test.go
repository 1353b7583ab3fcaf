// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/internal/testport"
)

// secured is a station with a server on --port that allows every request.
type secured struct {
	*station
	securePort int
	client     *http.Client
}

// newSecured starts an agent. It writes certificates below the station's folder.
func newSecured(s *station, flags ...string) secured {
	s.Helper()
	port := testport.Free(s)
	s.start(append(flags, "--port", strconv.Itoa(port), "--anonymous-auth", "--authorization-mode", "AlwaysAllow", "--cert-dir", filepath.Join(s.dir, "pki"))...)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	s.Cleanup(transport.CloseIdleConnections)
	return secured{s, port, &http.Client{Transport: transport}}
}

func (s secured) ask(path string) string {
	s.Helper()
	response, err := s.client.Get(fmt.Sprintf("https://127.0.0.1:%d%s", s.securePort, path))
	require.NoError(s, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(s, err)
	require.Equal(s, http.StatusOK, response.StatusCode, "%s: %s", path, text)
	return string(text)
}

func (s secured) summary(path string) (out statsapi.Summary) {
	s.Helper()
	require.NoError(s, json.Unmarshal([]byte(s.ask(path)), &out))
	return out
}

// scrape returns the metrics of a path, as Prometheus parses them.
func (s secured) scrape(path string) map[string]*dto.MetricFamily {
	s.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(s.ask(path)))
	require.NoError(s, err)
	return families
}

// series returns the metric with exactly these labels, given as "name=value", or nil.
func series(families map[string]*dto.MetricFamily, name string, labels ...string) *dto.Metric {
	for _, m := range families[name].GetMetric() {
		matching := 0
		for _, l := range m.GetLabel() {
			for _, want := range labels {
				if l.GetName()+"="+l.GetValue() == want {
					matching++
				}
			}
		}
		if matching == len(labels) && len(m.GetLabel()) == len(labels) {
			return m
		}
	}
	return nil
}

// The usage of the node and of a pod is served on every backend, in the forms of the kubelet.
func TestUsageIsServed(t *testing.T) {
	onEach(t, func(station *station) {
		manifest, _ := station.service("web", "head -c 3000000 /dev/zero > scratch/file 2>/dev/null || head -c 3000000 /dev/zero > $$KEELSON_ROOT/scratch/file; i=0; while [ $$i -lt 100000 ]; do i=$$((i+1)); done; echo a line; "+forever)
		manifest = withScratch(manifest)
		station.write("web.yaml", manifest)
		s := newSecured(station)
		s.waitPhase("web-n", v1.PodRunning)
		var pod statsapi.PodStats
		s.eventually("everything was measured", func() bool { // containerd measures file systems every 10 s, and folders are measured once a minute
			for _, pod = range s.summary("/stats/summary").Pods {
				if pod.PodRef.Name == "web-n" && len(pod.Containers) == 1 && pod.Containers[0].Rootfs != nil && pod.Containers[0].CPU != nil {
					return *pod.Containers[0].CPU.UsageCoreNanoSeconds > 1e6
				}
			}
			return false
		})
		main := pod.Containers[0]
		assert.Equal(t, "main", main.Name)
		assert.WithinDuration(t, time.Now(), main.StartTime.Time, 10*time.Minute)
		assert.WithinDuration(t, time.Now(), main.CPU.Time.Time, 10*time.Minute)
		assert.Positive(t, *main.Memory.WorkingSetBytes)
		assert.Positive(t, *main.Rootfs.CapacityBytes)
		assert.NotNil(t, main.Logs)
		require.Len(t, pod.VolumeStats, 1)
		assert.Equal(t, "scratch", pod.VolumeStats[0].Name)
		assert.Positive(t, *pod.VolumeStats[0].InodesUsed)
		assert.GreaterOrEqual(t, *pod.EphemeralStorage.UsedBytes, *pod.VolumeStats[0].UsedBytes)
		assert.NotEmpty(t, pod.PodRef.UID)

		summary := s.summary("/stats/summary")
		node := summary.Node
		assert.Equal(t, "n", node.NodeName)
		assert.Positive(t, *node.CPU.UsageCoreNanoSeconds)
		assert.Positive(t, *node.Memory.WorkingSetBytes)
		assert.Positive(t, *node.Memory.AvailableBytes)
		assert.Positive(t, *node.Fs.CapacityBytes)
		assert.Positive(t, *node.Rlimit.MaxPID)
		if station.backend.exact {
			assert.Nil(t, node.Runtime, "no images")
		} else {
			assert.Positive(t, *node.Runtime.ImageFs.CapacityBytes)
		}
		small := s.summary("/stats/summary?only_cpu_and_memory=true")
		assert.Nil(t, small.Node.Fs)
		assert.NotNil(t, small.Node.CPU)

		metrics := s.scrape("/metrics/resource")
		of := []string{"container=main", "pod=web-n", "namespace=default"}
		cpu := series(metrics, "container_cpu_usage_seconds_total", of...)
		require.NotNil(t, cpu)
		assert.Positive(t, cpu.GetCounter().GetValue())
		assert.WithinDuration(t, time.Now(), time.UnixMilli(cpu.GetTimestampMs()), 10*time.Minute)
		assert.Positive(t, series(metrics, "container_memory_working_set_bytes", of...).GetGauge().GetValue())
		start := series(metrics, "container_start_time_seconds", of...)
		assert.InDelta(t, float64(main.StartTime.Unix()), start.GetGauge().GetValue(), 1)
		assert.Nil(t, start.TimestampMs)
		assert.Positive(t, series(metrics, "pod_cpu_usage_seconds_total", of[1:]...).GetCounter().GetValue())
		assert.Positive(t, series(metrics, "pod_memory_working_set_bytes", of[1:]...).GetGauge().GetValue())
		assert.Positive(t, series(metrics, "node_cpu_usage_seconds_total").GetCounter().GetValue())
		assert.Positive(t, series(metrics, "node_memory_working_set_bytes").GetGauge().GetValue())
		assert.Zero(t, series(metrics, "resource_scrape_error").GetGauge().GetValue())
		s.checkContainerMetrics()
	})
}

// checkContainerMetrics scrapes the metrics that dashboards read.
func (s secured) checkContainerMetrics() {
	s.Helper()
	metrics := s.scrape("/metrics/cadvisor")
	of := func(name, container string) (found *dto.Metric) {
		for _, m := range metrics[name].GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["pod"] == "web-n" && labels["namespace"] == "default" && labels["container"] == container {
				found = m
			}
		}
		return found
	}
	names := []string{
		"container_cpu_usage_seconds_total", "container_memory_working_set_bytes", "container_memory_rss", "container_fs_usage_bytes", "container_fs_limit_bytes",
		"container_start_time_seconds", "container_last_seen", "container_spec_memory_limit_bytes", "container_spec_cpu_shares",
	}
	if s.backend.exact {
		names = append(names, "container_processes")
	} else {
		names = append(names, "container_cpu_user_seconds_total", "container_memory_cache", "container_memory_max_usage_bytes", "container_threads", "container_oom_events_total")
	}
	for _, name := range names {
		assert.NotNil(s, of(name, "main"), name)
	}
	own := !s.backend.exact && !strings.Contains(s.backend.spec, "hostNetwork")
	assert.Equal(s, own, of("container_network_receive_bytes_total", "") != nil, "a network of its own")
	assert.NotEmpty(s, metrics["machine_cpu_cores"].GetMetric())
	assert.NotEmpty(s, metrics["machine_memory_bytes"].GetMetric())
}

// withScratch adds an emptyDir to a manifest of service, in the working directory of the container.
func withScratch(manifest string) string {
	const volume, mount = "{name: scratch, emptyDir: {}}", "{name: scratch, mountPath: /scratch}"
	if strings.Contains(manifest, "volumes: [") {
		return strings.NewReplacer("volumes: [", "volumes: ["+volume+", ", "volumeMounts: [", "volumeMounts: ["+mount+", ").Replace(manifest)
	}
	return strings.Replace(strings.Replace(manifest, "spec:\n", "spec:\n  volumes: ["+volume+"]\n", 1), "      command:", "      volumeMounts: ["+mount+"]\n      command:", 1)
}
