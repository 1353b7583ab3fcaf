// SPDX-License-Identifier: Apache-2.0

package handlers_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/prober/handlers"
)

// Example makes one attempt of an HTTP probe and one of an exec probe.
func Example() {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "starting, asked for "+r.URL.Path)
	}))
	defer app.Close()
	address, err := url.Parse(app.URL)
	if err != nil {
		fmt.Println(err)
		return
	}

	handler, err := handlers.New(handlers.Options{
		// In an agent: runtime.ExecRunner, which runs the command in the container.
		Runner: handlers.RunnerFunc(func(_ context.Context, id string, cmd []string) (stdout, stderr []byte, exitCode int, err error) {
			return fmt.Appendf(nil, "%s in %s", cmd[0], id), nil, 0, nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	attempt := func(action v1.ProbeHandler) {
		outcome, err := handler.Probe(context.Background(), prober.Target{
			Pod: &v1.Pod{}, Container: &v1.Container{Name: "web"}, Probe: &v1.Probe{ProbeHandler: action, TimeoutSeconds: 1},
			Type: prober.Readiness, Instance: prober.Instance{ID: "fake://1", PodIP: address.Hostname()},
		})
		fmt.Printf("%s: %s (error: %v)\n", outcome.Verdict, outcome.Output, err)
	}
	attempt(v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/healthz", Port: intstr.Parse(address.Port())}})
	attempt(v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"check"}}})
	// Output:
	// failure: HTTP probe failed with statuscode: 503 (error: <nil>)
	// success: check in fake://1 (error: <nil>)
}
