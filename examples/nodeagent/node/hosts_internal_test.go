// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAllowsHost(t *testing.T) {
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 10255}
	lan := &net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 10255}
	names := []string{"edge-17", "edge-17.example.com"}
	tests := []struct {
		header string
		local  net.Addr
		want   bool
	}{
		{"127.0.0.1:10255", loopback, true},
		{"127.0.0.1", loopback, true},
		{"127.8.8.8:1", loopback, true},
		{"[::1]:10255", loopback, true},
		{"[::ffff:127.0.0.1]:10255", loopback, true},
		{"localhost:10255", loopback, true},
		{"LocalHost.", loopback, true},
		{"edge-17:10255", loopback, true},
		{"EDGE-17.example.com.:10255", lan, true},
		{"192.0.2.7:10255", lan, true},
		{"192.0.2.8:10255", lan, false},
		{"192.0.2.7:10255", loopback, false},
		{"evil.example.com", loopback, false},
		{"evil.example.com:10255", loopback, false},
		{"127.0.0.1.evil.example.com:10255", loopback, false},
		{"localhost.evil.example.com", loopback, false},
		{"0.0.0.0:10255", loopback, true},
		{"[::]:10255", loopback, true},
		{"0.0.0.0:10255", lan, false},
		{"0.0.0.0", nil, false},
		{"2130706433:10255", loopback, false},
		{"", loopback, false},
		{":10255", loopback, false},
		{"edge-17@evil.example.com", loopback, false},
		{"127.0.0.1", nil, true},
		{"192.0.2.7", nil, false},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, allowsHost(tt.header, tt.local, names), "%q to %v", tt.header, tt.local)
	}
}

// A host name resolved to 127.0.0.1 by DNS rebinding gets no data over a real connection.
func TestCheckHostOverTCP(t *testing.T) {
	server := httptest.NewServer(CheckHost(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("pods")) }), "edge-17"))
	t.Cleanup(server.Close)
	for host, want := range map[string]int{"": http.StatusOK, "evil.example.com": http.StatusForbidden, "edge-17": http.StatusOK} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		require.NoError(t, err)
		r.Host = host
		answer, err := server.Client().Do(r)
		require.NoError(t, err)
		answer.Body.Close()
		require.Equal(t, want, answer.StatusCode, host)
	}
}

func TestRedacted(t *testing.T) {
	env := []v1.EnvVar{{Name: "TOKEN", Value: "hush"}, {Name: "EMPTY"}, {Name: "NODE", ValueFrom: &v1.EnvVarSource{}}}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1.LastAppliedConfigAnnotation: "hush", "a": "b"}}}
	pod.Spec.InitContainers = []v1.Container{{Name: "i", Env: env}}
	pod.Spec.Containers = []v1.Container{{Name: "c", Env: env}, {Name: "none"}}
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Env: env}}}
	before := pod.DeepCopy()
	shown := redacted(pod)
	require.Equal(t, before, pod, "the pod is shared")
	require.NotContains(t, shown.String(), "hush")
	want := []v1.EnvVar{{Name: "TOKEN", Value: "(redacted)"}, {Name: "EMPTY"}, {Name: "NODE", ValueFrom: &v1.EnvVarSource{}}}
	require.Equal(t, want, shown.Spec.InitContainers[0].Env)
	require.Equal(t, want, shown.Spec.Containers[0].Env)
	require.Equal(t, want, shown.Spec.EphemeralContainers[0].Env)
	require.Equal(t, "b", shown.Annotations["a"])
	require.Nil(t, shown.Spec.Containers[1].Env)
}
