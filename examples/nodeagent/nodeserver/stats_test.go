// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats"
)

// usage is a UsageSource with one snapshot, or an error.
type usage struct {
	snapshot *nodestats.Snapshot
	err      error
	asked    nodestats.Request
}

func (u *usage) Collect(_ context.Context, r nodestats.Request) (*nodestats.Snapshot, error) {
	u.asked = r
	return u.snapshot, u.err
}

func completeUsage() *usage {
	one := uint64(1)
	fs := &statsapi.FsStats{UsedBytes: &one}
	cpu := &statsapi.CPUStats{UsageCoreNanoSeconds: &one}
	return &usage{snapshot: &nodestats.Snapshot{Summary: &statsapi.Summary{
		Node: statsapi.NodeStats{NodeName: "n", CPU: cpu, Fs: fs, Network: &statsapi.NetworkStats{}, Rlimit: &statsapi.RlimitStats{}, Runtime: &statsapi.RuntimeStats{}},
		Pods: []statsapi.PodStats{{
			PodRef: statsapi.PodReference{Namespace: "default", Name: "web", UID: "1"}, CPU: cpu, EphemeralStorage: fs,
			VolumeStats: []statsapi.VolumeStats{{Name: "v", FsStats: *fs}}, Network: &statsapi.NetworkStats{}, ProcessStats: &statsapi.ProcessStats{},
			Containers: []statsapi.ContainerStats{{Name: "main", CPU: cpu, Rootfs: fs, Logs: fs}},
		}},
	}}}
}

func TestStatsSummary(t *testing.T) {
	source := completeUsage()
	server := newServer(t, nodeserver.StatsSummary(source))
	summary := func(method, path string) (s statsapi.Summary) {
		code, text := ask(t, server, method, path)
		require.Equal(t, http.StatusOK, code)
		require.NoError(t, json.Unmarshal([]byte(text), &s))
		return s
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		full := summary(method, "/stats/summary")
		assert.Equal(t, nodestats.Request{}, source.asked)
		assert.Equal(t, *source.snapshot.Summary, full)
		small := summary(method, "/stats/summary?only_cpu_and_memory=true")
		assert.Equal(t, nodestats.Request{Detail: nodestats.CPUAndMemory}, source.asked)
		want := statsapi.Summary{
			Node: statsapi.NodeStats{NodeName: "n", CPU: full.Node.CPU},
			Pods: []statsapi.PodStats{{PodRef: full.Pods[0].PodRef, CPU: full.Pods[0].CPU, Containers: []statsapi.ContainerStats{{Name: "main", CPU: full.Pods[0].CPU}}}},
		}
		assert.Equal(t, want, small, "although the snapshot is complete")
	}
	assert.NotNil(t, source.snapshot.Summary.Pods[0].Containers[0].Rootfs, "the shared snapshot is not written")

	pods := source.snapshot.Summary.Pods
	for _, pods := range [][]statsapi.PodStats{{}, pods, append(pods, pods...)} {
		source.snapshot.Summary.Pods = pods
		want, err := json.Marshal(source.snapshot.Summary)
		require.NoError(t, err)
		_, got := ask(t, server, http.MethodGet, "/stats/summary")
		require.Equal(t, string(want), strings.ReplaceAll(got, "\n", ""))
	}

	source.err = errors.New("no runtime")
	code, text := ask(t, server, http.MethodGet, "/stats/summary")
	assert.Equal(t, http.StatusInternalServerError, code)
	assert.Equal(t, "Internal Error: no runtime\n", text)
	code, _ = ask(t, server, http.MethodDelete, "/stats/summary")
	assert.Equal(t, http.StatusMethodNotAllowed, code)
}

func TestResourceMetrics(t *testing.T) {
	source := completeUsage()
	server := newServer(t, nodeserver.ResourceMetrics(source))
	code, text := ask(t, server, http.MethodGet, "/metrics/resource")
	require.Equal(t, http.StatusOK, code)
	assert.Equal(t, nodestats.Request{Detail: nodestats.CPUAndMemory}, source.asked)
	assert.Contains(t, text, `container_cpu_usage_seconds_total{pod="web",namespace="default",container="main"} 1e-09`)

	source.err = errors.New("no runtime")
	code, text = ask(t, server, http.MethodGet, "/metrics/resource")
	assert.Equal(t, http.StatusOK, code, "the failure is a metric")
	assert.Contains(t, text, "resource_scrape_error 1\n")
}
