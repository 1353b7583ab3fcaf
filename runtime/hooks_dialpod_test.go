// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"net"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

// podDialer is a runtime whose pods have addresses that only they reach. All are the address to.
type podDialer struct {
	runtime.Runtime
	to     string
	dialed []string
}

func (d *podDialer) DialPod(ctx context.Context, pod types.UID, network, address string) (net.Conn, error) {
	d.dialed = append(d.dialed, string(pod)+" "+address)
	return (&net.Dialer{}).DialContext(ctx, network, d.to)
}

// TestHTTPHookBeginsInThePodsNetwork has a hook to its pod, and a hook to another host.
func TestHTTPHookBeginsInThePodsNetwork(t *testing.T) {
	var requests asked
	server := httptest.NewServer(requests.serve(200))
	defer server.Close()
	h := hookTo(server)
	d := &podDialer{to: server.Listener.Addr().String()}
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	pod.UID = "uid"
	hooks := runtime.NewHooks(d, h.events)
	for host, dialed := range map[string][]string{"": {"uid 192.0.2.200:" + h.action.Port.String()}, "127.0.0.1": nil} {
		d.dialed = nil
		h.action.Host = host
		require.NoError(t, hooks.RunHook(t.Context(), runtime.HookCall{
			Pod: pod, Container: &pod.Spec.Containers[0], PodIPs: []string{"192.0.2.200"}, Handler: &v1.LifecycleHandler{HTTPGet: &h.action},
		}))
		assert.Equal(t, dialed, d.dialed)
	}
	assert.Len(t, requests.list, 2)
}
