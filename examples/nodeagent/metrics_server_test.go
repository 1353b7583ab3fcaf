// SPDX-License-Identifier: Apache-2.0

//go:build !nometrics && !noapiserver

package main

import (
	"crypto/tls"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeidentity"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats"
)

func metricsText(m *metrics) string {
	answer := httptest.NewRecorder()
	m.ServeHTTP(answer, nil)
	return answer.Body.String()
}

func TestMetricsOfRequestsAreTheKubelets(t *testing.T) {
	m := newMetrics("n")
	o := m.requests()
	r := nodeserver.Request{Method: "GET", Path: "exec", LongRunning: true, WebSocket: true}
	o.Began(r)
	const labels = `{long_running="true",method="GET",path="exec",server_type="readwrite"} `
	require.Contains(t, metricsText(m), "kubelet_http_inflight_requests"+labels+"1\n")
	o.Ended(r, 2*time.Second)
	o.Began(nodeserver.Request{Method: "GET", Path: "pods", WebSocket: true})
	for _, want := range []string{
		"kubelet_http_requests_total" + labels + "1\n", "kubelet_http_inflight_requests" + labels + "0\n", "kubelet_http_requests_duration_seconds_sum" + labels + "2\n",
		`kubelet_websocket_streaming_requests_total{subresource="exec"} 1` + "\n", `kubelet_http_requests_total{long_running="false",method="GET",path="pods",server_type="readwrite"} 1` + "\n",
	} {
		require.Contains(t, metricsText(m), want)
	}
	require.NotContains(t, metricsText(m), `subresource="pods"`)
}

// The volumes of claims have the names and labels that dashboards and autoscalers of volumes read.
func TestMetricsOfClaims(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "pods/1/volumes/kubernetes.io~csi/pv/mount"), 0o755))
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "1"}}
	pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}}}
	usage, err := nodestats.New(nodestats.Options{NodeName: "n", Pods: func() []*v1.Pod { return []*v1.Pod{pod} }, Root: root, LogDir: root,
		VolumeFolders: func(types.UID) map[string]string { return map[string]string{"data": "pv"} }})
	require.NoError(t, err)
	m := newMetrics("n")
	m.watchClaims(usage)
	for _, name := range []string{"capacity_bytes", "available_bytes", "used_bytes"} {
		require.Contains(t, metricsText(m), "kubelet_volume_stats_"+name+`{namespace="ns",persistentvolumeclaim="claim"} `)
	}
	require.NoError(t, os.RemoveAll(filepath.Join(root, "pods")))
	require.NotContains(t, metricsText(m), "kubelet_volume_stats_")
}

// Certificates that the agent does not replace have no metrics.
func TestMetricsOfCertificates(t *testing.T) {
	m := newMetrics("n")
	m.watchIdentity(nil)
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`), 0o600))
	own := &identity{}
	var err error
	own.client, err = nodeidentity.NewClient(nodeidentity.ClientOptions{Node: "n", Kubeconfig: kubeconfig, Dir: dir})
	require.NoError(t, err)
	m.watchIdentity(own)
	require.NotContains(t, metricsText(m), "kubelet_certificate_manager")

	store, err := nodeidentity.NewStore(dir, nodeidentity.ServingPrefix)
	require.NoError(t, err)
	own.serving, err = nodeidentity.New(nodeidentity.Options{
		Store: store, Signer: certificatesv1.KubeletServingSignerName, Template: func() (nodeidentity.Template, bool) { return nodeidentity.Template{}, false },
		Requester: func(*tls.Certificate, error) (nodeidentity.Requester, error) { return nil, errors.New("none") },
	})
	require.NoError(t, err)
	m = newMetrics("n")
	m.watchIdentity(own)
	own.servingIssues.observer().Failed(errors.New("denied"))
	own.servingIssues.observer().Replaced(2 * time.Hour)
	for _, want := range []string{
		"kubelet_certificate_manager_server_ttl_seconds +Inf\n", "kubelet_server_expiration_renew_errors 1\n",
		`kubelet_certificate_manager_server_rotation_seconds_bucket{le="3600"} 0` + "\n", `kubelet_certificate_manager_server_rotation_seconds_bucket{le="14400"} 1` + "\n",
	} {
		require.Contains(t, metricsText(m), want)
	}
}
