// SPDX-License-Identifier: Apache-2.0

package handlers_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/prober/handlers"
)

// TestDialPod has probes of a pod whose address only Options.DialPod reaches. A probe of another host begins in the host's network.
func TestDialPod(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	defer server.Close()
	own := server.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(own)
	inside := net.JoinHostPort("192.0.2.200", port)
	var dialed []string
	h := newHandler(t, handlers.Options{DialPod: func(ctx context.Context, pod types.UID, network, address string) (net.Conn, error) {
		dialed = append(dialed, string(pod)+" "+address)
		if address != inside {
			return nil, errors.New("not a pod")
		}
		return (&net.Dialer{}).DialContext(ctx, network, own)
	}})
	for name, tt := range map[string]struct {
		address string
		probe   v1.ProbeHandler
		dials   bool
		want    prober.Verdict
	}{
		"http":                     {inside, v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{}}, true, prober.VerdictSuccess},
		"http to the pod by name":  {inside, v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Host: "192.0.2.200"}}, true, prober.VerdictSuccess},
		"http to another host":     {inside, v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Host: "127.0.0.1"}}, false, prober.VerdictSuccess},
		"tcp":                      {inside, v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{}}, true, prober.VerdictSuccess},
		"tcp to another host":      {inside, v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Host: "127.0.0.1"}}, false, prober.VerdictSuccess},
		"grpc, which is not there": {inside, v1.ProbeHandler{GRPC: &v1.GRPCAction{}}, true, prober.VerdictFailure},
		"a network that has ended": {net.JoinHostPort("192.0.2.201", port), v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{}}, true, prober.VerdictFailure},
	} {
		dialed = nil
		target := targetOf(t, tt.address, tt.probe)
		target.Pod.UID = "uid"
		got, err := within(t, timeout, h, target)
		assert.NoError(t, err, name)
		assert.Equal(t, tt.want, got.Verdict, "%s: %s", name, got.Output)
		assert.Equal(t, tt.dials, strings.Contains(strings.Join(dialed, " "), "uid "+tt.address), "%s: %v", name, dialed)
		if strings.HasPrefix(name, "a network") {
			assert.Contains(t, got.Output, "not a pod", name)
		}
	}
}
