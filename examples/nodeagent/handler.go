// SPDX-License-Identifier: Apache-2.0

package main

import "net/http"

// handler serves the agent's endpoints, /metrics and optionally profiles.
func handler(agent, metrics http.Handler, profiling bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", agent)
	mux.Handle("GET /metrics", metrics)
	if profiling {
		mux.HandleFunc("/debug/pprof/", profile)
	}
	return mux
}
