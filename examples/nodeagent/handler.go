// SPDX-License-Identifier: Apache-2.0

package main

import "net/http"

// profilesReadOnly reports whether the port without authentication serves profiles. With --port, they
// are served there only.
func (f *flags) profilesReadOnly() bool {
	return f.profiling && f.server.port == 0 && f.server.debugging
}

// handler serves the agent's endpoints, metrics, the usage of pods and optionally profiles.
func handler(agent, usage http.Handler, numbers *metrics, profiling bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", agent)
	mux.Handle("GET /metrics", numbers)
	mux.HandleFunc("GET /metrics/probes", numbers.serveProbes)
	for _, path := range []string{"/stats/summary", "/metrics/resource", "/metrics/cadvisor"} {
		mux.Handle("GET "+path, usage)
	}
	if profiling {
		mux.HandleFunc("/debug/pprof/", profile)
	}
	return mux
}
