// SPDX-License-Identifier: Apache-2.0

package main

import "net/http"

// handler serves the agent's endpoints, metrics and optionally profiles.
func handler(agent http.Handler, numbers *metrics, profiling bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", agent)
	mux.Handle("GET /metrics", numbers)
	mux.HandleFunc("GET /metrics/probes", numbers.serveProbes)
	if profiling {
		mux.HandleFunc("/debug/pprof/", profile)
	}
	return mux
}
