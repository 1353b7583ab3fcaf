// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/pprof"
	"strings"
)

// handler serves what the agent does, /metrics and, if it is asked for, what
// net/http/pprof has.
func handler(agent, metrics http.Handler, profiling bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", agent)
	mux.Handle("GET /metrics", metrics)
	if profiling {
		mux.HandleFunc("/debug/pprof/", func(w http.ResponseWriter, r *http.Request) {
			switch strings.TrimPrefix(r.URL.Path, "/debug/pprof/") {
			case "cmdline":
				pprof.Cmdline(w, r)
			case "profile":
				pprof.Profile(w, r)
			case "symbol":
				pprof.Symbol(w, r)
			case "trace":
				pprof.Trace(w, r)
			default:
				pprof.Index(w, r)
			}
		})
	}
	return mux
}
