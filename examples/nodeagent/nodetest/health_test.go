// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// ask returns the agent's HTTP response, and its duration.
func ask(node *nodetest.Node, path string) (code int, body string, took time.Duration) {
	began := time.Now()
	w := httptest.NewRecorder()
	node.Agent.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
	return w.Code, w.Body.String(), time.Since(began)
}

// A runtime that hangs, or that fails, is told of within ten seconds by /readyz and /healthz; the loop is alive meanwhile,
// and all is well as soon as the runtime answers.
func TestAHungRuntimeIsToldOfWithinTenSeconds(t *testing.T) {
	for name, fault := range map[string]fake.Fault{
		"hangs": {HangUntilCtx: true, For: time.Minute},
		"fails": {Err: errors.New("no such socket"), For: time.Minute},
		"slow":  {Latency: 20 * time.Second, For: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := nodetest.New(t, nodetest.Options{})
				node.Apply(nodetest.Pod("web", nodetest.Container("w")))
				for _, path := range []string{"/livez", "/readyz", "/healthz"} {
					code, body, took := ask(node, path)
					require.Equal(t, http.StatusOK, code, path)
					require.Equal(t, "ok", body)
					require.Zero(t, took)
				}
				time.Sleep(30 * time.Second)
				_, err := node.World.Inject(fault)
				require.NoError(t, err)
				for _, path := range []string{"/readyz", "/healthz"} {
					code, body, took := ask(node, path)
					require.Equal(t, http.StatusInternalServerError, code, path)
					require.Contains(t, body, "the container runtime is down")
					require.LessOrEqual(t, took, 10*time.Second)
				}
				require.ErrorIs(t, node.Agent.Ready(ctxOf(t, 2*time.Second)), runtime.ErrRuntimeDown)
				code, _, took := ask(node, "/livez")
				require.Equal(t, http.StatusOK, code, "a restart of the agent would not help")
				require.Zero(t, took)
				time.Sleep(time.Minute)
				code, _, _ = ask(node, "/healthz")
				require.Equal(t, http.StatusOK, code)
			})
		})
	}
}

// Concurrent health requests share a listing of the runtime, and each is answered in time.
func TestManyWhoAskForHealthCostOneListingAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{})
		_, err := node.World.Inject(fake.Fault{On: fake.Target{Op: fake.OpList}, Latency: time.Second, For: time.Minute})
		require.NoError(t, err)
		before := node.World.Count(fake.Target{Op: fake.OpList})
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				code, body, took := ask(node, "/readyz")
				require.Equal(t, http.StatusOK, code, body)
				require.LessOrEqual(t, took, 3*time.Second)
			})
		}
		wg.Wait()
		require.LessOrEqual(t, node.World.Count(fake.Target{Op: fake.OpList})-before, 4, "100 asked")
	})
}

func TestPodsAreServedWithoutEnvironments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{})
		pod := nodetest.Pod("web", nodetest.Container("w"))
		pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "TOKEN", Value: "hush"}}
		node.Apply(pod)
		code, body, _ := ask(node, "/pods")
		require.Equal(t, http.StatusOK, code)
		require.Contains(t, body, `{"name":"TOKEN","value":"(redacted)"}`)
		require.NotContains(t, body, "hush")
		require.Equal(t, "hush", node.Agent.Pods()[0].Spec.Containers[0].Env[0].Value)
	})
}
